/* device_list.h - the devices of all backends as one list: which backend device i is of. */
#ifndef LK_API_DEVICE_LIST_H
#define LK_API_DEVICE_LIST_H

#include "backend/backend.h"

/* Device 0 is the processor. *index: its number in the backend. */
lk_status lk_device_find(uint32_t device, const lk_backend_ops **ops, uint32_t *index,
                         lk_error *err);

#endif
