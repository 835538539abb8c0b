package creation

import (
	"slices"
	"sync"

	"nstance.dev/providers/proxmox/api"
	"nstance.dev/providers/proxmox/rules"
	"nstance.dev/server/driver"
)

// The numbers that machines are given. Below are people's own.
const (
	minNumber = 10_000
	maxNumber = rules.MaxNumber
)

// numbers hands out machine numbers, each once while this process lives. The zero value
// is ready for use. Another process may hand out a number again whose machine is gone: a
// number says nothing about who a machine is.
type numbers struct {
	mu     sync.Mutex
	last   int // handed out above all others
	filled int // handed out last below them; 0: none
}

// take returns a number that is not used, above all that are and that were handed out.
// Where somebody has a machine at the very end, it is the first free one. Another program
// may take it all the same.
func (n *numbers) take(used []int) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	highest := 0
	if len(used) > 0 {
		highest = slices.Max(used)
	}
	if next := max(minNumber, highest+1, n.last+1); next <= maxNumber {
		n.last = next
		return next, nil
	}
	taken := func(number int) bool { return slices.Contains(used, number) }
	next, err := firstFree(max(minNumber, n.filled+1), taken)
	if err != nil {
		next, err = firstFree(minNumber, taken)
	}
	n.filled = next
	return next, err
}

// firstFree is the first number from one on that is not taken. The error is of class Quota.
func firstFree(from int, taken func(int) bool) (int, error) {
	for next := from; next <= maxNumber; next++ {
		if !taken(next) {
			return next, nil
		}
	}
	return 0, api.Errorf(driver.Quota, "every machine number from %d to %d is taken", from, maxNumber)
}
