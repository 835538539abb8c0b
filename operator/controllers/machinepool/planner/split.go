package planner

// EqualSplit divides replicas into n parts that differ by at most one, the greater ones
// first. It returns nil for n < 1, and takes negative replicas for 0. No part is greater
// than MaxSize.
func EqualSplit(replicas, n int) []int {
	if n < 1 {
		return nil
	}
	replicas = min(max(replicas, 0), n*MaxSize)
	parts := make([]int, n)
	for i := range parts {
		parts[i] = replicas / n
		if i < replicas%n {
			parts[i]++
		}
	}
	return parts
}
