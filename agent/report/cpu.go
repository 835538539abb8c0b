package report

import "github.com/prometheus/procfs"

// busy returns the share of time between two samples in which a CPU worked, percent. It is
// not ok if no time has passed or a counter went back.
func busy(before, now procfs.CPUStat) (percent float64, ok bool) {
	total := sum(now) - sum(before)
	idle := now.Idle + now.Iowait - before.Idle - before.Iowait
	if total <= 0 || idle < 0 {
		return 0, false
	}
	return 100 * max(0, min(1, 1-idle/total)), true
}

// sum leaves guests out: the kernel counts their time as user's already.
func sum(s procfs.CPUStat) float64 {
	return s.User + s.Nice + s.System + s.Idle + s.Iowait + s.IRQ + s.SoftIRQ + s.Steal
}

// cores returns the usage of each core in the kernel's order. It returns nothing when the
// set of cores changed or one of them has no usage, because the position in the list is
// all that tells cores apart.
func cores(before, now map[int64]procfs.CPUStat) []float64 {
	if len(before) != len(now) {
		return nil
	}
	usage := make([]float64, 0, len(now))
	for i := range int64(len(now)) {
		b, hadBefore := before[i]
		n, hasNow := now[i]
		percent, ok := busy(b, n)
		if !hadBefore || !hasNow || !ok {
			return nil
		}
		usage = append(usage, percent)
	}
	return usage
}
