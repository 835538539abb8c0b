package status

import (
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Later is the result of a pass that leaves its status to a later one: after a pause, or when the pass
// wants to come again if that is sooner (zero: it does not), and after whatever else the queue has by then.
func Later(pause, again time.Duration) reconcile.Result {
	if again > 0 {
		pause = min(pause, again)
	}
	return reconcile.Result{RequeueAfter: pause, Priority: ptr.To(handler.LowPriority)}
}
