// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Memory of consumers in the kernel: regions for fast registration. The device has no DMA (ib_uses_virt_dma), so pages and
 * addresses are kernel virtual ones. Each move is made under the region's lock: an invalidation that has returned is final.
 */
#include "kverbs.h"

#include <linux/log2.h>
#include <linux/random.h>
#include <linux/string.h>

static struct swr_mr *to_swr_mr(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct swr_mr, ibmr);
}

/* ---- the core's calls -------------------------------------------------------------------------------------------------- */

static struct swr_mr *mr_alloc(struct ib_pd *ibpd)
{
	struct swr_mr *mr;
	int error = swr_count_up(ibpd->device, SWR_MRS, NULL);

	if (error)
		return ERR_PTR(error);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (mr)
		return mr;
	swr_count_down(ibpd->device, SWR_MRS, NULL);
	return ERR_PTR(-ENOMEM);
}

/* Nobody needs it: the device has a local DMA key. All of memory for a peer there is not. */
struct ib_mr *swr_get_dma_mr(struct ib_pd *ibpd, int access)
{
	struct swr_mr *mr;

	if (access & ~(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_RELAXED_ORDERING))
		return ERR_PTR(-EOPNOTSUPP);
	mr = mr_alloc(ibpd);
	if (IS_ERR(mr))
		return ERR_CAST(mr);
	mr->ibmr.lkey = ibpd->device->local_dma_lkey;
	mr->ibmr.rkey = mr->ibmr.lkey;
	return &mr->ibmr;
}

static int number_mr(struct swr_device *dev, struct swr_kmr *kmr)
{
	/* Never 0: that is the local DMA key's. */
	return xa_alloc_cyclic(&dev->mrs, &kmr->index, kmr, XA_LIMIT(1, 0xffffff), &dev->next_mr, GFP_KERNEL);
}

struct ib_mr *swr_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type, u32 max_pages)
{
	struct swr_kmr *kmr;
	struct swr_mr *mr;
	int error;

	if (type != IB_MR_TYPE_MEM_REG)
		return ERR_PTR(-EOPNOTSUPP);
	if (!max_pages || max_pages > SWR_MAX_FAST_REG_PAGES)
		return ERR_PTR(-EINVAL);
	mr = mr_alloc(ibpd);
	if (IS_ERR(mr))
		return ERR_CAST(mr);
	kmr = kzalloc(struct_size(kmr, pages, 2 * max_pages), GFP_KERNEL);
	error = -ENOMEM;
	if (!kmr)
		goto free;
	spin_lock_init(&kmr->lock);
	kmr->pd = ibpd;
	kmr->max_pages = max_pages;
	error = number_mr(to_swr_device(ibpd->device), kmr);
	if (error < 0)
		goto free;
	mr->kernel = kmr;
	mr->ibmr.lkey = kmr->index << 8 | (get_random_u32() & 0xff);
	mr->ibmr.rkey = mr->ibmr.lkey;
	return &mr->ibmr;
free:
	kfree(kmr);
	kfree(mr);
	swr_count_down(ibpd->device, SWR_MRS, NULL);
	return ERR_PTR(error);
}

void swr_kmr_free(struct swr_device *dev, struct swr_kmr *kmr)
{
	unsigned long flags;

	xa_erase(&dev->mrs, kmr->index);
	spin_lock_irqsave(&kmr->lock, flags);
	kmr->valid = false;
	kmr->pd = NULL;
	spin_unlock_irqrestore(&kmr->lock, flags);
	kfree_rcu(kmr, rcu);
}

static int add_page(struct ib_mr *ibmr, u64 address)
{
	struct swr_kmr *kmr = to_swr_mr(ibmr)->kernel;

	if (kmr->nr_mapped == kmr->max_pages)
		return -ENOMEM;
	kmr->pages[kmr->max_pages + kmr->nr_mapped++] = address;
	return 0;
}

/* What is mapped is in use from the next REG_MR on: until that is executed a peer may still use what was mapped before. */
int swr_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int nents, unsigned int *offset)
{
	struct swr_kmr *kmr = to_swr_mr(ibmr)->kernel;
	unsigned long flags;
	int mapped;

	if (!kmr || ibmr->page_size < PAGE_SIZE || !is_power_of_2(ibmr->page_size))
		return -EINVAL;
	spin_lock_irqsave(&kmr->lock, flags);
	kmr->nr_mapped = 0;
	mapped = ib_sg_to_pages(ibmr, sg, nents, offset, add_page);
	kmr->mapped_offset = ibmr->iova & (ibmr->page_size - 1);
	kmr->mapped_length = ibmr->length;
	kmr->mapped_page_size = ibmr->page_size;
	if (mapped <= 0)
		kmr->nr_mapped = 0;
	spin_unlock_irqrestore(&kmr->lock, flags);
	return mapped;
}

/* ---- its state, for a QP ----------------------------------------------------------------------------------------------- */

/* In an RCU read-side section; or NULL. */
static struct swr_kmr *find(struct swr_device *dev, u32 stag)
{
	return xa_load(&dev->mrs, stag >> 8);
}

static int register_locked(struct swr_kmr *kmr, const struct ib_pd *pd, u32 stag, u64 iova, int access)
{
	if (kmr->pd != pd || kmr->valid || !kmr->nr_mapped)
		return -EINVAL;
	if (kmr->mapped_offset + kmr->mapped_length > (u64)kmr->nr_mapped * kmr->mapped_page_size)
		return -EINVAL;
	memcpy(kmr->pages, kmr->pages + kmr->max_pages, kmr->nr_mapped * sizeof(*kmr->pages));
	kmr->iova = iova;
	kmr->offset = kmr->mapped_offset;
	kmr->length = kmr->mapped_length;
	kmr->page_size = kmr->mapped_page_size;
	kmr->stag = stag;
	kmr->access = access;
	kmr->valid = true;
	return 0;
}

int swr_kmr_register(struct swr_device *dev, const struct ib_pd *pd, u32 stag, u64 iova, int access)
{
	struct swr_kmr *kmr;
	int error = -EINVAL;

	rcu_read_lock();
	kmr = find(dev, stag);
	if (kmr) {
		spin_lock(&kmr->lock);
		error = register_locked(kmr, pd, stag, iova, access);
		spin_unlock(&kmr->lock);
	}
	rcu_read_unlock();
	return error;
}

/* An invalid region may be invalidated again by us, whatever its key; by the peer only one that it may use. */
static enum swrnic_name_error invalidate_locked(struct swr_kmr *kmr, const struct ib_pd *pd, u32 stag, bool remote)
{
	if (kmr->pd != pd)
		return SWRNIC_NAME_WRONG_PD;
	if (!kmr->valid)
		return remote ? SWRNIC_NAME_INVALID_STAG : SWRNIC_NAME_OK;
	if (kmr->stag != stag)
		return SWRNIC_NAME_INVALID_STAG;
	if (remote && !(kmr->access & (IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE)))
		return SWRNIC_NAME_ACCESS;
	kmr->valid = false;
	return SWRNIC_NAME_OK;
}

enum swrnic_name_error swr_kmr_invalidate(struct swr_device *dev, const struct ib_pd *pd, u32 stag, bool remote)
{
	enum swrnic_name_error error = SWRNIC_NAME_INVALID_STAG;
	struct swr_kmr *kmr;

	rcu_read_lock();
	kmr = find(dev, stag);
	if (kmr) {
		spin_lock(&kmr->lock);
		error = invalidate_locked(kmr, pd, stag, remote);
		spin_unlock(&kmr->lock);
	}
	rcu_read_unlock();
	return error;
}

/* ---- moving octets ----------------------------------------------------------------------------------------------------- */

/* In the order of DDP-31. */
static enum swrnic_name_error check_locked(const struct swr_kmr *kmr, const struct ib_pd *pd, u32 stag, int access, u64 va,
					   u32 length)
{
	if (!kmr->valid || kmr->stag != stag)
		return SWRNIC_NAME_INVALID_STAG;
	if (kmr->pd != pd)
		return SWRNIC_NAME_WRONG_PD;
	if ((kmr->access & access) != access)
		return SWRNIC_NAME_ACCESS;
	if (va + length < va)
		return SWRNIC_NAME_WRAP;
	if (va < kmr->iova || va - kmr->iova > kmr->length || length > kmr->length - (va - kmr->iova))
		return SWRNIC_NAME_BOUNDS;
	return SWRNIC_NAME_OK;
}

/* What was checked. */
static void move_locked(const struct swr_kmr *kmr, u64 va, u32 length, u8 *buffer, bool in)
{
	u64 offset = kmr->offset + (va - kmr->iova);

	while (length) {
		u32 within = offset & (kmr->page_size - 1);
		u32 run = min(length, kmr->page_size - within);
		u8 *page = (u8 *)(uintptr_t)kmr->pages[offset >> ilog2(kmr->page_size)];

		if (in)
			memcpy(buffer, page + within, run);
		else
			memcpy(page + within, buffer, run);
		buffer += run;
		offset += run;
		length -= run;
	}
}

enum swrnic_name_error swr_kmr_move(struct swr_device *dev, const struct ib_pd *pd, u32 stag, int access, u64 va, u32 length,
				    void *buffer, bool in)
{
	enum swrnic_name_error error = SWRNIC_NAME_INVALID_STAG;
	struct swr_kmr *kmr;

	rcu_read_lock();
	kmr = find(dev, stag);
	if (kmr) {
		spin_lock(&kmr->lock);
		error = check_locked(kmr, pd, stag, access, va, length);
		if (!error && buffer)
			move_locked(kmr, va, length, buffer, in);
		spin_unlock(&kmr->lock);
	}
	rcu_read_unlock();
	return error;
}
