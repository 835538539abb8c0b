package conns

import "fmt"

// Budget is how many connections each listener may have at once. Together they leave
// enough file descriptors for storage, the provider, the cache and logs.
type Budget struct {
	Registration, Operator, Agent, Election, Health, Metrics int
}

const (
	leastReserve     = 256 // descriptors for everything else
	leastConnections = 64
)

// Divide splits the descriptors that a process may have (RLIMIT_NOFILE) among its
// listeners. A quarter, and at least 256, are kept for everything else. It fails where
// fewer than 64 are left.
func Divide(descriptors uint64) (Budget, error) {
	n := int(min(descriptors, 1<<24))
	left := n - max(leastReserve, n/4)
	if left < leastConnections {
		return Budget{}, fmt.Errorf("the process may open %d files, and needs %d; raise its limit (LimitNOFILE of the unit, or ulimit -n)",
			descriptors, leastReserve+leastConnections)
	}
	b := Budget{
		Registration: max(left/12, 8), Operator: max(left/12, 8),
		Election: min(max(left/24, 8), 256), Health: min(max(left/48, 8), 64), Metrics: min(max(left/96, 4), 16),
	}
	b.Agent = left - b.Registration - b.Operator - b.Election - b.Health - b.Metrics
	return b, nil
}
