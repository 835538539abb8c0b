package demandscale

import (
	"fmt"
	"time"

	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/perf/bench"
)

const (
	// hold is for how long a server waits that is told of less than half of what was needed
	// before: the later of that and of the group's delay is the hold window.
	hold = 20 * time.Second

	decideGoal = 2 * time.Second
	nodeGoal   = 2 * time.Second
)

// leave deletes all Pods and measures how so many Nodes go.
func (w *world) leave(nodes int) []bench.Row {
	w.t.Helper()
	s, stop := w.watch()
	defer stop()
	w.undeploy()
	w.await(s, nodeChosen, nodes)
	w.await(s, nodeGone, nodes)
	w.await(s, machineGone, nodes)
	empty := s.last(podGone)
	kube.Await(w.t, "nothing is left over", w.Left)
	machines, late := s.of(machineGone), time.Duration(0)
	for node, at := range s.of(nodeGone) {
		late = max(late, at.Sub(machines[node]))
	}
	name := fmt.Sprintf("%d Nodes are empty at once: ", nodes)
	return []bench.Row{
		promise("D3", name+"all chosen to go, after the hold window", "s", max(0, since(empty.Add(max(hold, delay)), s.last(nodeChosen))), decideGoal.Seconds()),
		promise("D3", name+"all machines gone, after they are chosen", "s", since(s.last(nodeChosen), s.last(machineGone)), float64(nodes)/deletesPerSecond),
		promise("D3", name+"Node gone after its machine, at most", "s", late.Seconds(), nodeGoal.Seconds()),
	}
}

// deletesPerSecond is how fast a server deletes machines of this provider at least, whose calls
// are bounded to 200 a second: each goes through leaving the cluster, and the end of a process.
const deletesPerSecond = 10
