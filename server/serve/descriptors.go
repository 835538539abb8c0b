package serve

import (
	"fmt"
	"syscall"

	"nstance.dev/server/conns"
)

// connectionBudget divides the files that this process may open among its listeners. The
// runtime has raised the limit as far as it may.
func connectionBudget() (conns.Budget, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return conns.Budget{}, fmt.Errorf("limit of open files: %w", err)
	}
	return conns.Divide(limit.Cur)
}
