// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Whole FPDUs between the stream of a consumer's QP and what the daemon names. They go through a buffer of ours: what has come is
 * placed when its CRC is right and not before (MPA-77), and what is sent must not change once it is summed, as a page may that is
 * being written to. The socket is used as a process uses it, since the daemon may have made of it what it likes: nothing of TCP's
 * inside is touched.
 */
#include "conn.h"
#include "kverbs.h"

#include <linux/align.h>
#include <linux/bvec.h>
#include <linux/crc32c.h>
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/uaccess.h>

#define LENGTH_LEN 2 /* ULPDU_Length */
#define CRC_LEN 4
#define DDP_LAST 0x40 /* in DDP's control octet, which follows the length: L */

/* ---- the stream -------------------------------------------------------------------------------------------------------- */

/* Its file, with a reference, or NULL. */
static struct file *stream_of(struct swr_file *file, u32 qpn, struct swrnic_connected *connected)
{
	struct swr_qp *qp = swr_served_qp(file, qpn);
	struct swr_conn *conn = qp ? swr_qp_conn(qp) : NULL;
	struct file *stream = NULL;

	if (conn) {
		stream = swr_conn_file(conn, connected);
		swr_conn_put(conn);
	}
	if (qp)
		swr_qp_put(qp);
	return stream;
}

static int read_stream(struct file *stream, void *to, u32 length, int flags)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL | flags };
	struct kvec vec = { .iov_base = to, .iov_len = length };

	return kernel_recvmsg(sock_from_file(stream), &msg, &vec, 1, length, msg.msg_flags);
}

/*
 * Pages that nobody has any more, in one block for all that a TRANSMIT lays out: what is given to TCP there it does not copy, and
 * keeps until the peer has it. NULL: memory is short, or this kernel's TCP takes none.
 */
static struct page *free_pages_of(struct swr_file *file)
{
	if (!SWR_SENDS_PAGES)
		return NULL;
	if (file->pages && page_ref_count(file->pages) > 1) {
		put_page(file->pages);
		file->pages = NULL;
	}
	if (!file->pages)
		file->pages =
			alloc_pages(GFP_NOWAIT | __GFP_NOMEMALLOC | __GFP_NOWARN | __GFP_COMP, get_order(SWRNIC_MOVED_OCTETS));
	return file->pages;
}

/* From the beginning of `buffer`, which is that of `pages` if there are such. What is shorter than a page is not worth one. */
static int write_stream(struct file *stream, struct page *pages, void *buffer, u32 length)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
	struct kvec vec = { .iov_base = buffer, .iov_len = length };
	struct bio_vec lent;
	int sent;

	iov_iter_kvec(&msg.msg_iter, ITER_SOURCE, &vec, 1, length);
	if (pages && length >= PAGE_SIZE) {
		lent = (struct bio_vec){ .bv_page = pages, .bv_len = length };
		iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, &lent, 1, length);
		msg.msg_flags |= MSG_SPLICE_PAGES;
	}
	sent = sock_sendmsg(sock_from_file(stream), &msg);
	return sent == -EAGAIN ? 0 : sent;
}

/* ---- FPDUs ------------------------------------------------------------------------------------------------------------- */

static u32 ulpdu_len(const u8 *fpdu)
{
	return get_unaligned_be16(fpdu);
}

/* Without the CRC: what it covers. */
static u32 covered_len(u32 ulpdu_len)
{
	return ALIGN(LENGTH_LEN + ulpdu_len, 4);
}

static u32 fpdu_len(u32 ulpdu_len)
{
	return covered_len(ulpdu_len) + CRC_LEN;
}

static u32 crc_of(const u8 *fpdu, u32 covered)
{
	return ~crc32c(~0, fpdu, covered);
}

static bool crc_right(const u8 *fpdu)
{
	u32 covered = covered_len(ulpdu_len(fpdu));

	return get_unaligned_le32(fpdu + covered) == crc_of(fpdu, covered);
}

/* ---- receiving --------------------------------------------------------------------------------------------------------- */

static bool is_last(const u8 *fpdu)
{
	return fpdu[LENGTH_LEN] & DDP_LAST;
}

/* Of `next` there is the header at least. */
static bool continues(const u8 *fpdu, u32 payload, const u8 *next, u32 header)
{
	u32 offset = header - (header == SWRNIC_HEADER_TAGGED ? sizeof(__be64) : sizeof(__be32));
	u32 behind = LENGTH_LEN + 1;

	if (LENGTH_LEN + ulpdu_len(next) <= header || ((next[LENGTH_LEN] ^ fpdu[LENGTH_LEN]) & ~DDP_LAST) ||
	    memcmp(next + behind, fpdu + behind, offset - behind))
		return false;
	if (header == SWRNIC_HEADER_TAGGED)
		return get_unaligned_be64(next + offset) == get_unaligned_be64(fpdu + offset) + payload;
	return get_unaligned_be32(next + offset) == get_unaligned_be32(fpdu + offset) + payload;
}

/*
 * All of it or nothing, as far as nobody flushes or invalidates it meanwhile; in pieces, so that interrupts are not off for long,
 * each of which is checked anew.
 */
static bool place(struct swr_qp *qp, const struct swrnic_name *name, u8 *payload)
{
	u32 done, length;

	if (swr_kqp_move(qp, name, name->offset, name->length, NULL, false))
		return false;
	for (done = 0; done < name->length; done += length) {
		length = min_t(u32, name->length - done, PAGE_SIZE);
		if (swr_kqp_move(qp, name, name->offset + done, length, payload + done, false))
			return false;
	}
	return true;
}

/* A Response that ends elsewhere than its Read is an error, which the daemon finds. */
static bool ends_well(struct swr_qp *qp, const struct swrnic_name *name)
{
	return name->kind != SWRNIC_NAME_SEND || swr_kqp_ends_request(qp, name);
}

static bool place_fpdu(struct swr_qp *qp, const struct swrnic_name *name, u8 *fpdu, u32 header)
{
	return (!is_last(fpdu) || ends_well(qp, name)) && place(qp, name, fpdu + header);
}

static void count_placed(struct swrnic_receive *receive, const u8 *fpdu, u32 payload)
{
	receive->placed++;
	receive->octets += payload;
	receive->last = payload;
	receive->whole = is_last(fpdu);
	receive->ended += receive->whole;
}

/* Those at the beginning of the buffer that can be placed: how many of its octets they are. */
static u32 place_fpdus(struct swr_qp *qp, struct swrnic_receive *receive, bool crc, u8 *buffer, u32 length)
{
	struct swrnic_name name = receive->name;
	u32 done = 0, size;
	u8 *fpdu;

	for (;;) {
		fpdu = buffer + done;
		size = fpdu_len(ulpdu_len(fpdu));
		if (size > length - done || (crc && !crc_right(fpdu)) || !place_fpdu(qp, &name, fpdu, receive->header))
			return done;
		done += size;
		count_placed(receive, fpdu, name.length);
		if (!(receive->flags & SWRNIC_RECEIVE_MORE) || (is_last(fpdu) && name.kind != SWRNIC_NAME_TAGGED) ||
		    length - done < receive->header || !continues(fpdu, name.length, buffer + done, receive->header))
			return done;
		name.offset += name.length;
		name.length = LENGTH_LEN + ulpdu_len(buffer + done) - receive->header;
		cond_resched();
	}
}

static u32 receive_fpdus(struct swr_file *file, struct swrnic_receive *receive, bool crc, u8 *buffer, u32 length)
{
	struct swr_qp *qp = swr_served_qp(file, receive->qpn);
	u32 done;

	if (!qp)
		return 0;
	done = place_fpdus(qp, receive, crc, buffer, length);
	swr_qp_put(qp);
	return done;
}

/*
 * FPDUs that are no longer are not worth a RECEIVE, nor messages of one FPDU that is no longer than that. The daemon asks for none
 * of a payload below RxForeign::kUnread, which the first follows: with header, pad and CRC.
 */
#define SHORT_FPDU 540
#define SHORT_MESSAGE 4096
#define BEGINNING 64 /* of a longer one: all headers that a payload may follow */

static bool is_short(const u8 *fpdu, u32 size)
{
	return size <= SHORT_FPDU || (is_last(fpdu) && size <= SHORT_MESSAGE);
}

/*
 * What is handed over of octets behind an FPDU that was placed: all up to a longer one. Of that the beginning, since the daemon can
 * say by RECEIVE where its payload goes, which it could not if it had the octets itself; unless the end of what has come cuts it.
 */
static u32 handed_over(const u8 *octets, u32 length, bool more_has_come)
{
	u32 done = 0, size;
	bool whole;

	while (length - done > LENGTH_LEN) {
		size = fpdu_len(ulpdu_len(octets + done));
		whole = size <= length - done;
		if ((whole || more_has_come) && !is_short(octets + done, size))
			return min(done + BEGINNING, length);
		if (!whole)
			break;
		done += size;
	}
	return length;
}

/* So many octets of the buffer are placed; so many have come behind what the daemon has. */
static int take_off(struct file *stream, struct swrnic_receive *receive, u8 *buffer, u32 done, u32 come)
{
	u32 begin = max(done, receive->have), length = receive->have + come - begin;

	receive->left = done ? handed_over(buffer + begin, length, come == receive->room) : length;
	receive->taken = begin - receive->have + receive->left;
	receive->remains = receive->taken < come;
	if (copy_to_user(u64_to_user_ptr(receive->rest), buffer + begin, receive->left))
		return -EFAULT;
	/* MSG_TRUNC: TCP does not copy them once more. Fewer of them are there only if the daemon reads by itself meanwhile. */
	return read_stream(stream, buffer, receive->taken, MSG_TRUNC) == receive->taken ? 0 : -EPROTO;
}

int swr_receive(struct swr_file *file, struct swrnic_receive *receive, u8 *buffer)
{
	u32 have = receive->have, done = 0;
	struct swrnic_connected connected;
	struct file *stream;
	int come, error = 0;

	receive->taken = 0;
	receive->left = 0;
	receive->remains = 0;
	receive->placed = 0;
	receive->octets = 0;
	receive->last = 0;
	receive->ended = 0;
	receive->whole = 0;
	if (copy_from_user(buffer, u64_to_user_ptr(receive->fpdu), have))
		return -EFAULT;
	if (receive->name.length > U16_MAX || LENGTH_LEN + ulpdu_len(buffer) != receive->header + receive->name.length ||
	    fpdu_len(ulpdu_len(buffer)) <= have)
		return -EINVAL;
	stream = stream_of(file, receive->qpn, &connected);
	if (!stream)
		return -ENOTCONN;
	come = read_stream(stream, buffer + have, receive->room, MSG_PEEK);
	if (come > 0) {
		if (!(connected.flags & SWRNIC_CONN_MARKERS_RX))
			done = receive_fpdus(file, receive, connected.flags & SWRNIC_CONN_CRC, buffer, have + come);
		error = take_off(stream, receive, buffer, done, come);
	}
	fput(stream);
	return come < 0 ? come : error;
}

/* ---- sending ----------------------------------------------------------------------------------------------------------- */

static bool fpdu_valid(const struct swrnic_fpdu *fpdu)
{
	if (fpdu->flags & ~SWRNIC_FPDU_ENDS || (fpdu->flags && fpdu->name.kind != SWRNIC_NAME_SEND))
		return false;
	return fpdu->header_len > LENGTH_LEN && fpdu->header_len <= SWRNIC_FPDU_HEADER && fpdu->name.length <= U16_MAX &&
	       swr_name_valid(&fpdu->name) && LENGTH_LEN + ulpdu_len(fpdu->header) == fpdu->header_len + fpdu->name.length;
}

/* enum swrnic_name_error, or -EINVAL. */
static int take_payload(struct swr_file *file, u32 qpn, const struct swrnic_name *name, u8 *to)
{
	struct swr_qp *qp = swr_served_qp(file, qpn);
	u32 done, length;
	int error = 0;

	if (!qp)
		return -EINVAL;
	if (name->whole)
		error = swr_kqp_move(qp, name, name->offset, name->whole, NULL, true);
	for (done = 0; !error && done < name->length; done += length) {
		length = min_t(u32, name->length - done, PAGE_SIZE);
		error = swr_kqp_move(qp, name, name->offset + done, length, to + done, true);
	}
	swr_qp_put(qp);
	return error;
}

/* How many octets it has; less than 0: an error. 0: its name is not good. */
static int lay_out(struct swr_file *file, struct swrnic_transmit *transmit, const struct swrnic_fpdu *fpdu, bool crc, u8 *to,
		   u32 room)
{
	u32 filled = fpdu->header_len + fpdu->name.length, covered = ALIGN(filled, 4);
	int error;

	if (!fpdu_valid(fpdu) || covered + CRC_LEN > room)
		return -EINVAL;
	error = take_payload(file, transmit->qpn, &fpdu->name, to + fpdu->header_len);
	if (error < 0)
		return error;
	transmit->error = error;
	if (error)
		return 0;
	memcpy(to, fpdu->header, fpdu->header_len);
	memset(to + filled, 0, covered - filled);
	put_unaligned_le32(crc ? crc_of(to, covered) : 0, to + covered);
	return covered + CRC_LEN;
}

/* Requests that end in a run, as many as are taken note of; where their last FPDUs end. */
struct ends {
	u32 count;
	u32 at[16];
	u64 sequences[16];
};

static void note_end(struct ends *ends, u64 sequence, u32 at)
{
	if (ends->count == ARRAY_SIZE(ends->at))
		return; /* the daemon says it by COMPLETE */
	ends->at[ends->count] = at;
	ends->sequences[ends->count++] = sequence;
}

/* How many of them are complete. */
static u32 complete_sent(struct swr_file *file, u32 qpn, const struct ends *ends, u32 sent)
{
	struct swr_qp *qp;
	u32 count = 0;

	while (count < ends->count && ends->at[count] <= sent)
		count++;
	qp = count ? swr_served_qp(file, qpn) : NULL;
	if (!qp)
		return 0;
	count = swr_kqp_sent(qp, ends->sequences, count);
	swr_qp_put(qp);
	return count;
}

/* The octets of the run; less than 0: an error. */
static int lay_out_all(struct swr_file *file, struct swrnic_transmit *transmit, bool crc, u8 *buffer, struct ends *ends)
{
	const struct swrnic_fpdu __user *fpdus = u64_to_user_ptr(transmit->fpdus);
	struct swrnic_fpdu fpdu;
	u32 length = 0;
	int size;

	for (transmit->laid_out = 0; transmit->laid_out < transmit->count; transmit->laid_out++) {
		if (copy_from_user(&fpdu, fpdus + transmit->laid_out, sizeof(fpdu)))
			return -EFAULT;
		size = lay_out(file, transmit, &fpdu, crc, buffer + length, SWRNIC_MOVED_OCTETS - length);
		if (size < 0)
			return size;
		if (!size)
			break;
		length += size;
		if (fpdu.flags & SWRNIC_FPDU_ENDS)
			note_end(ends, fpdu.name.id, length);
		cond_resched();
	}
	return length;
}

/* What follows of the FPDU whose octets are sent in part, if there is one. */
static u32 cut_off(const u8 *buffer, u32 sent)
{
	u32 end = 0;

	while (end < sent)
		end += fpdu_len(ulpdu_len(buffer + end));
	return end - sent;
}

int swr_transmit(struct swr_file *file, struct swrnic_transmit *transmit, u8 *buffer)
{
	struct swrnic_connected connected;
	struct file *stream = stream_of(file, transmit->qpn, &connected);
	struct page *pages = free_pages_of(file);
	int length = -EINVAL, sent = 0;
	struct ends ends = {};

	if (pages)
		buffer = page_address(pages);
	transmit->error = 0;
	transmit->done = 0;
	if (!stream)
		return -ENOTCONN;
	if (!(connected.flags & SWRNIC_CONN_MARKERS_TX))
		length = lay_out_all(file, transmit, connected.flags & SWRNIC_CONN_CRC, buffer, &ends);
	if (length > 0)
		sent = write_stream(stream, pages, buffer, length);
	fput(stream);
	if (length < 0 || sent < 0)
		return length < 0 ? length : sent;
	transmit->sent = sent;
	transmit->done = complete_sent(file, transmit->qpn, &ends, sent);
	transmit->left = cut_off(buffer, sent);
	return copy_to_user(u64_to_user_ptr(transmit->rest), buffer + sent, transmit->left) ? -EFAULT : 0;
}
