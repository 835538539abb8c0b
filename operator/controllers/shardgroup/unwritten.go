package shardgroup

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// unwritten are statuses that wait for other groups' sizes, by object. A pass starts from the status
// that waits, as if it were written: what that says of the last call nobody else knows, and the call
// would be made again. The zero value has none; it is safe for concurrent use.
type unwritten struct {
	mu  sync.Mutex
	all map[client.ObjectKey]*infrav1.NstanceShardGroup // with the status that it is to have
}

func (u *unwritten) put(object *infrav1.NstanceShardGroup, next infrav1.NstanceShardGroupStatus) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all = map[client.ObjectKey]*infrav1.NstanceShardGroup{}
	}
	u.all[client.ObjectKeyFromObject(object)] = &infrav1.NstanceShardGroup{ObjectMeta: metav1.ObjectMeta{UID: object.UID}, Status: next}
}

// take gives an object the status that it is to have, and returns the one that it has.
func (u *unwritten) take(object *infrav1.NstanceShardGroup) (stored infrav1.NstanceShardGroupStatus) {
	u.mu.Lock()
	defer u.mu.Unlock()
	stored = object.Status
	if late := u.all[client.ObjectKeyFromObject(object)]; late != nil && late.UID == object.UID {
		object.Status = *late.Status.DeepCopy()
	}
	return stored
}

func (u *unwritten) forget(name client.ObjectKey) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.all, name)
}
