// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Contexts, protection domains, memory regions, completion queues: as deep as the core needs them. The engine has the rest. */
#include "kverbs.h"
#include "path.h"

#include <linux/file.h>

/* Exactly what the contract says; what lies behind it must be zero. */
int swr_take_driver_data(struct ib_udata *udata, void *req, size_t size)
{
	if (!udata)
		return -EOPNOTSUPP; /* a consumer in the kernel */
	if (udata->inlen < size)
		return -EINVAL;
	if (udata->inlen > size && !ib_is_udata_cleared(udata, size, udata->inlen - size))
		return -EINVAL;
	return ib_copy_from_udata(req, udata, size);
}

static const int limits[SWR_KINDS] = {
	[SWR_PDS] = SWR_MAX_PD, [SWR_MRS] = SWR_MAX_MR,	       [SWR_MWS] = SWR_MAX_MW,
	[SWR_AHS] = SWR_MAX_AH, [SWR_CQS] = SWR_MAX_CQ,	       [SWR_SRQS] = SWR_MAX_SRQ,
	[SWR_QPS] = SWR_MAX_QP, [SWR_GROUPS] = SWR_MAX_GROUPS, [SWR_STARTUPS] = SWR_MAX_STARTUPS,
};

static const char *const names[SWR_KINDS] = {
	[SWR_AHS] = "address handles", [SWR_PDS] = "protection domains",       [SWR_MRS] = "memory regions",
	[SWR_MWS] = "memory windows",  [SWR_CQS] = "completion queues",	       [SWR_SRQS] = "shared receive queues",
	[SWR_QPS] = "queue pairs",     [SWR_GROUPS] = "attachments to groups", [SWR_STARTUPS] = "connections or sockets under way",
};

/* ---- quotas: the core charges most objects to nobody, so that the limits are more than words ----------------------------- */

/* Of any one user but root: the others must find something left. */
static int limit_of_user(enum swr_kind kind)
{
	return limits[kind] / 2;
}

void swr_user_put(struct swr_user *user)
{
	struct xarray *users = &user->dev->users;
	bool last;

	xa_lock(users);
	last = !--user->contexts;
	if (last)
		__xa_erase(users, __kuid_val(user->uid));
	xa_unlock(users);
	if (last) {
		WARN_ON(!list_empty(&user->ports));
		kfree(user);
	}
}

static struct swr_user *user_find(struct swr_device *dev, kuid_t uid)
{
	struct swr_user *user;

	xa_lock(&dev->users);
	user = xa_load(&dev->users, __kuid_val(uid));
	if (user)
		user->contexts++;
	xa_unlock(&dev->users);
	return user;
}

struct swr_user *swr_user_get(struct swr_device *dev)
{
	kuid_t uid = current_uid();
	struct swr_user *user;
	int error;

	for (;;) {
		user = user_find(dev, uid);
		if (user)
			return user;
		user = kzalloc(sizeof(*user), GFP_KERNEL_ACCOUNT);
		if (!user)
			return NULL;
		user->contexts = 1;
		user->dev = dev;
		user->uid = uid;
		mutex_init(&user->ports_lock);
		INIT_LIST_HEAD(&user->ports);
		error = xa_insert(&dev->users, __kuid_val(uid), user, GFP_KERNEL_ACCOUNT);
		if (!error)
			return user;
		kfree(user);
		if (error != -EBUSY)
			return NULL;
	}
}

static bool take_one(atomic_t *count, int limit)
{
	if (atomic_inc_return(count) <= limit)
		return true;
	atomic_dec(count);
	return false;
}

int swr_count_up(struct ib_device *ibdev, enum swr_kind kind, struct swr_user *user)
{
	struct swr_device *dev = to_swr_device(ibdev);

	if (!user) {
		if (take_one(&dev->kernel_objects[kind], limits[kind]))
			return 0;
	} else if (take_one(&dev->objects[kind], limits[kind])) {
		if (take_one(&user->objects[kind], uid_eq(user->uid, GLOBAL_ROOT_UID) ? limits[kind] : limit_of_user(kind)))
			return 0;
		atomic_dec(&dev->objects[kind]);
		pr_info_ratelimited("%s: refused: user %u has %d %s, the most that the device allows to one\n",
				    dev_name(&ibdev->dev), __kuid_val(user->uid), limit_of_user(kind), names[kind]);
		return -ENOMEM;
	}
	pr_info_ratelimited("%s: refused: there are %d %s, the most that the device allows\n", dev_name(&ibdev->dev), limits[kind],
			    names[kind]);
	return -ENOMEM;
}

void swr_count_down(struct ib_device *ibdev, enum swr_kind kind, struct swr_user *user)
{
	struct swr_device *dev = to_swr_device(ibdev);

	atomic_dec(user ? &dev->objects[kind] : &dev->kernel_objects[kind]);
	if (user)
		atomic_dec(&user->objects[kind]);
}

/* ---- contexts ---------------------------------------------------------------------------------------------------------- */

int swr_alloc_ucontext(struct ib_ucontext *ibucontext, struct ib_udata *udata)
{
	struct swr_ucontext *ucontext = to_swr_ucontext(ibucontext);
	struct swrnic_alloc_ucontext_resp resp = {};
	struct swrnic_alloc_ucontext_req req;
	struct file *fp;
	int error, fd;

	error = swr_take_driver_data(udata, &req, sizeof(req));
	if (error)
		return error;
	if (req.reserved[0] || req.reserved[1] || req.reserved[2])
		return -EINVAL;
	if (udata->outlen < sizeof(resp))
		return -ENOSPC;
	resp.abi_version = swrnic_abi_common(req.abi_version);
	if (!resp.abi_version)
		return -EPROTO;
	error = swr_file_create(to_swr_device(ibucontext->device), &ucontext->file, &fp, &fd);
	if (error)
		return error;
	resp.event_fd = fd;
	error = ib_copy_to_udata(udata, &resp, sizeof(resp));
	if (error) {
		put_unused_fd(fd);
		fput(fp);
		swr_file_kill(ucontext->file);
		swr_file_put(ucontext->file);
		return error;
	}
	/* Nothing can fail from here on: this is the last step of ib_init_ucontext(). */
	fd_install(fd, fp);
	return 0;
}

void swr_dealloc_ucontext(struct ib_ucontext *ibucontext)
{
	struct swr_ucontext *ucontext = to_swr_ucontext(ibucontext);

	swr_file_kill(ucontext->file);
	swr_file_put(ucontext->file);
}

/* Nothing is mapped. With it, the device may go away while processes have it open. */
void swr_disassociate_ucontext(struct ib_ucontext *ibucontext)
{
}

static struct swr_file *file_of(struct ib_udata *udata)
{
	return rdma_udata_to_drv_context(udata, struct swr_ucontext, ibucontext)->file;
}

/* Who holds a process's object; NULL: the kernel does. It stays as long as the context, which all its objects precede. */
static struct swr_user *user_of(struct ib_udata *udata)
{
	return udata ? file_of(udata)->user : NULL;
}

/* ---- protection domains ------------------------------------------------------------------------------------------------ */

int swr_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct swr_pd *pd = container_of(ibpd, struct swr_pd, ibpd);

	pd->user = user_of(udata);
	return swr_count_up(ibpd->device, SWR_PDS, pd->user);
}

int swr_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	swr_count_down(ibpd->device, SWR_PDS, container_of(ibpd, struct swr_pd, ibpd)->user);
	return 0;
}

/* ---- memory regions: an account for `rdma resource`; the engine checks and moves --------------------------------------- */

struct ib_mr *swr_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 virt_addr, int access, struct ib_dmah *dmah,
			      struct ib_udata *udata)
{
	struct swrnic_reg_mr_req req;
	struct swr_mr *mr;
	int error = swr_take_driver_data(udata, &req, sizeof(req));

	if (error)
		return ERR_PTR(error);
	if (!req.stag || req.reserved || !length || length > SWR_MAX_MR_SIZE || start + length < start)
		return ERR_PTR(-EINVAL);
	if (access & IB_ACCESS_ON_DEMAND)
		return ERR_PTR(-EOPNOTSUPP);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL_ACCOUNT);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->user = user_of(udata);
	error = swr_count_up(ibpd->device, SWR_MRS, mr->user);
	if (error) {
		kfree(mr);
		return ERR_PTR(error);
	}
	mr->ibmr.lkey = req.stag;
	mr->ibmr.rkey = req.stag;
	mr->ibmr.length = length;
	mr->ibmr.iova = virt_addr;
	return &mr->ibmr;
}

int swr_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct swr_mr *mr = container_of(ibmr, struct swr_mr, ibmr);

	swr_count_down(ibmr->device, SWR_MRS, mr->user);
	if (mr->kernel)
		swr_kmr_free(to_swr_device(ibmr->device), mr->kernel);
	kfree(mr);
	return 0;
}

/* ---- memory windows: the same; binding is the engine's business, which nobody tells of ----------------------------------- */

int swr_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata)
{
	struct swr_mw *mw = container_of(ibmw, struct swr_mw, ibmw);
	struct swrnic_alloc_mw_req req;
	int error = swr_take_driver_data(udata, &req, sizeof(req));

	if (error)
		return error;
	if (!req.stag || req.reserved || (ibmw->type != IB_MW_TYPE_1 && ibmw->type != IB_MW_TYPE_2))
		return -EINVAL;
	mw->user = user_of(udata);
	error = swr_count_up(ibmw->device, SWR_MWS, mw->user);
	if (!error)
		ibmw->rkey = req.stag;
	return error;
}

int swr_dealloc_mw(struct ib_mw *ibmw)
{
	swr_count_down(ibmw->device, SWR_MWS, container_of(ibmw, struct swr_mw, ibmw)->user);
	return 0;
}

/* ---- address handles: where UD QPs send to. Other programs make them to learn whether a GID can be reached ---------------- */

static int tell_way(const struct swr_path *path, struct ib_udata *udata)
{
	struct swrnic_create_ah_resp way = { .interface = path->interface };

	if (udata->outlen < sizeof(way))
		return 0; /* a provider that knows no UD */
	swr_addr_octets(&path->source, way.source);
	swr_addr_octets(&path->peer, way.peer);
	if (path->peer_is_group)
		way.group_port = SWR_GROUP_PORT;
	return ib_copy_to_udata(udata, &way, sizeof(way));
}

int swr_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *attr, struct ib_udata *udata)
{
	struct swr_ah *ah = container_of(ibah, struct swr_ah, ibah);
	struct swr_path path;
	int error = -EINVAL;

	if (swr_is_in_namespace(to_swr_device(ibah->device)))
		error = swr_path_find_any(to_swr_device(ibah->device), attr->ah_attr, &path);
	if (!error)
		error = tell_way(&path, udata);
	if (error)
		return error;
	ah->user = user_of(udata);
	return swr_count_up(ibah->device, SWR_AHS, ah->user);
}

int swr_destroy_ah(struct ib_ah *ibah, u32 flags)
{
	swr_count_down(ibah->device, SWR_AHS, container_of(ibah, struct swr_ah, ibah)->user);
	return 0;
}

/* ---- completion queues: a name for COMP_POSTED ------------------------------------------------------------------------- */

static void cq_release(struct kref *kref)
{
	complete(&container_of(kref, struct swr_cq, kref)->free);
}

void swr_cq_put(struct swr_cq *cq)
{
	kref_put(&cq->kref, cq_release);
}

static int create_process_cq(struct ib_cq *ibcq, struct ib_udata *uverbs)
{
	struct swr_cq *cq = to_swr_cq(ibcq);
	struct ib_uobject *uobject;

	/*
	 * The handle that the process knows the CQ by. The struct around it is private to the core, but begins with the generic
	 * object: that it does is checked by what must then stand there.
	 */
	uobject = (struct ib_uobject *)ibcq->uobject;
	if (!uobject || uobject->context != &rdma_udata_to_drv_context(uverbs, struct swr_ucontext, ibucontext)->ibucontext)
		return -EOPNOTSUPP;
	cq->file = file_of(uverbs);
	cq->handle = uobject->id;
	swr_unread_init_comp(&cq->unread, uobject);
	kref_init(&cq->kref);
	init_completion(&cq->free);
	return xa_insert_irq(&cq->file->cqs, cq->handle, cq, GFP_KERNEL_ACCOUNT);
}

int swr_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr, struct swr_create_cq_arg *arg)
{
	struct ib_udata *uverbs = swr_cq_udata(arg);
	int error;

	if (attr->flags)
		return -EOPNOTSUPP;
	if (attr->cqe < 1 || attr->cqe > SWR_MAX_CQE)
		return -EINVAL;
	error = swr_count_up(ibcq->device, SWR_CQS, user_of(uverbs));
	if (error)
		return error;
	error = uverbs ? create_process_cq(ibcq, uverbs) : swr_kcq_create(to_swr_cq(ibcq), attr);
	if (error)
		swr_count_down(ibcq->device, SWR_CQS, user_of(uverbs));
	else
		ibcq->cqe = attr->cqe;
	return error;
}

int swr_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct swr_cq *cq = to_swr_cq(ibcq);

	swr_count_down(ibcq->device, SWR_CQS, cq->kernel ? NULL : cq->file->user);
	if (cq->kernel) {
		swr_kcq_destroy(cq);
	} else {
		xa_erase_irq(&cq->file->cqs, cq->handle);
		swr_cq_put(cq);
		wait_for_completion(&cq->free);
	}
	return 0;
}
