// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What `rdma statistic` shows: sums of what the processes of the device report. The data path is theirs, so a process that lies
 * here falsifies a number that all can see, and nothing else.
 */
#include "swrnic.h"

/* With the contract's names, in its order (enum swrnic_counter). */
static const struct rdma_stat_desc descriptions[] = {
	[SWRNIC_COUNT_TX_BYTES].name = "tx_bytes",
	[SWRNIC_COUNT_RX_BYTES].name = "rx_bytes",
	[SWRNIC_COUNT_TX_FPDUS].name = "tx_fpdus",
	[SWRNIC_COUNT_RX_FPDUS].name = "rx_fpdus",
	[SWRNIC_COUNT_TX_SENDS].name = "tx_sends",
	[SWRNIC_COUNT_RX_SENDS].name = "rx_sends",
	[SWRNIC_COUNT_TX_WRITES].name = "tx_writes",
	[SWRNIC_COUNT_RX_WRITES].name = "rx_writes",
	[SWRNIC_COUNT_TX_READ_REQUESTS].name = "tx_read_requests",
	[SWRNIC_COUNT_RX_READ_REQUESTS].name = "rx_read_requests",
	[SWRNIC_COUNT_TX_READ_RESPONSES].name = "tx_read_responses",
	[SWRNIC_COUNT_RX_READ_RESPONSES].name = "rx_read_responses",
	[SWRNIC_COUNT_TX_TERMINATES].name = "tx_terminates",
	[SWRNIC_COUNT_RX_TERMINATES].name = "rx_terminates",
	[SWRNIC_COUNT_RX_CRC_ERRORS].name = "rx_crc_errors",
	[SWRNIC_COUNT_RX_STALLS].name = "rx_stalls",
	[SWRNIC_COUNT_TX_CALLS].name = "tx_calls",
	[SWRNIC_COUNT_RX_CALLS].name = "rx_calls",
};

static_assert(ARRAY_SIZE(descriptions) == SWRNIC_COUNTERS);

/* ---- the numbers: a device's, but the event files that feed them may outlive it ---------------------------------------- */

struct swr_counters *swr_counters_alloc(void)
{
	struct swr_counters *counters = kzalloc(sizeof(*counters), GFP_KERNEL);

	if (counters)
		kref_init(&counters->kref);
	return counters;
}

void swr_counters_get(struct swr_counters *counters)
{
	kref_get(&counters->kref);
}

static void counters_release(struct kref *kref)
{
	kfree(container_of(kref, struct swr_counters, kref));
}

void swr_counters_put(struct swr_counters *counters)
{
	kref_put(&counters->kref, counters_release);
}

int swr_counted(struct swr_counters *counters, u32 counter, u32 by)
{
	if (counter >= SWRNIC_COUNTERS)
		return -EINVAL;
	atomic64_add(by, &counters->values[counter]);
	return 0;
}

/* ---- what the core asks for -------------------------------------------------------------------------------------------- */

struct rdma_hw_stats *swr_alloc_hw_port_stats(struct ib_device *ibdev, u32 port)
{
	return rdma_alloc_hw_stats_struct(descriptions, SWRNIC_COUNTERS, RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

int swr_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port, int index)
{
	struct swr_counters *counters = to_swr_device(ibdev)->counters;
	unsigned int i;

	if (port != 1)
		return -EOPNOTSUPP;
	for (i = 0; i < SWRNIC_COUNTERS; i++)
		stats->value[i] = atomic64_read(&counters->values[i]);
	return SWRNIC_COUNTERS;
}
