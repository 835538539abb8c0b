package status

import (
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Deferred is the result of a pass that does not write its status yet. The object is looked at again after
// the pause, or when the pass asks for it if that is sooner (again; zero: it does not), and behind
// whatever else the queue has by then.
func Deferred(pause, again time.Duration) reconcile.Result {
	if again > 0 {
		pause = min(pause, again)
	}
	return reconcile.Result{RequeueAfter: pause, Priority: ptr.To(handler.LowPriority)}
}
