package program

import (
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"

	"nstance.dev/operator/config"
)

// Controllers are the defaults of all controllers of a manager.
func Controllers(s config.Settings) ctrlconfig.Controller {
	// The priority queue of controller-runtime 0.24.1 may hand out one more item when its workers
	// have left already. It waits for a worker then and holds its locks, and a worker that is
	// not done yet waits for these: the process would end by its grace period, without giving up its lease.
	no := false
	return ctrlconfig.Controller{MaxConcurrentReconciles: s.MaxConcurrentReconciles, UsePriorityQueue: &no}
}
