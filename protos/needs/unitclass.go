package needs

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Amount is an amount of one resource: cpu in milli-units, others in base units.
type Amount struct {
	Name   string
	Amount int64
}

// What a unit of size class 0 has at most.
const (
	smallestCPU    = 500     // milli-units
	smallestMemory = 1 << 30 // bytes
)

// UnitClass returns the size class of a unit: the smallest n for which 2^n times 500 milli
// cpu and 1 GiB of memory are enough, and the exact amounts of its extended resources, such
// as `3|nvidia.com/gpu=1`. Units of one class differ in cpu and memory by no more than twice
// the larger of the two, so that the largest of a row says something about all of them.
//
// The amounts may have any order; each name occurs once. A class that would be longer than 200
// bytes is replaced by its hash: it is compared for equality alone.
func UnitClass(amounts []Amount) string {
	n := 0
	var extended []Amount
	for _, a := range amounts {
		switch {
		case a.Name == "cpu":
			n = max(n, doublings(a.Amount, smallestCPU))
		case a.Name == "memory":
			n = max(n, doublings(a.Amount, smallestMemory))
		case IsExtended(a.Name):
			extended = append(extended, a)
		}
	}
	if len(extended) == 0 {
		return strconv.Itoa(n)
	}
	slices.SortFunc(extended, func(a, b Amount) int { return cmp.Compare(a.Name, b.Name) })
	class := strconv.AppendInt(nil, int64(n), 10)
	for _, a := range extended {
		class = append(append(class, '|'), a.Name...)
		class = strconv.AppendInt(append(class, '='), a.Amount, 10)
	}
	if len(class) > 200 {
		return shortHash(class)
	}
	return string(class)
}

// doublings returns the smallest n for which unit times 2^n is at least amount.
func doublings(amount, unit int64) int {
	n := 0
	// Halving what is left instead of doubling the unit cannot overflow.
	for units := (amount-1)/unit + 1; units > 1; units = (units + 1) / 2 {
		n++
	}
	return n
}

// IsExtended says whether a resource is not one of Kubernetes' own: it has a domain, which is
// not kubernetes.io or below it.
func IsExtended(name string) bool {
	domain, _, found := strings.Cut(name, "/")
	return found && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io")
}
