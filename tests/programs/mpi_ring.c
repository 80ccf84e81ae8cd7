// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A ring, a sum over all ranks and atomics on one word of rank 0's, each with its result checked. Compiled by each
// MPI's own mpicc.
#include <mpi.h>
#include <stdio.h>

enum { kLength = 100000, kRounds = 100 };
static double mine[kLength], sums[kLength];

int main(int argc, char** argv) {
    int rank, ranks, wrong = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);

    const int before = (rank + ranks - 1) % ranks;
    int from_before = -1;
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % ranks, 0, &from_before, 1, MPI_INT, before, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    wrong += from_before != before;

    for (int i = 0; i < kLength; ++i)
        mine[i] = rank + i;
    MPI_Allreduce(mine, sums, kLength, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < kLength; ++i)
        wrong += sums[i] != ranks * (ranks - 1) / 2 + (double)ranks * i;

    int* word;
    MPI_Win window;
    MPI_Win_allocate(sizeof *word, sizeof *word, MPI_INFO_NULL, MPI_COMM_WORLD, &word, &window);
    *word = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    for (int i = 0; i < kRounds; ++i) {
        const int one = 1;
        int old;
        MPI_Fetch_and_op(&one, &old, MPI_INT, 0, 0, MPI_SUM, window);
        MPI_Win_flush(0, window);
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    wrong += rank == 0 && *word != kRounds * ranks;
    MPI_Win_free(&window);

    printf("rank %d of %d: %s\n", rank, ranks, wrong != 0 ? "WRONG" : "right");
    MPI_Finalize();
    return wrong != 0;
}
