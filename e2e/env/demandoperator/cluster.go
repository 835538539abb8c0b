package demandoperator

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

// cluster is what the API server of the cluster knows. A Node is a file that is named after its machine and
// holds the binding by which it has joined, which is its UID.
type cluster struct {
	dir      string
	nodes    map[string]*node // by machine
	joins    map[string][]string
	pods     map[string]string // to the machine whose Node it runs on; empty: it is pending
	drains   map[string]*drain // by the UID of the Node; of a machine without one by its id
	reported map[string]report // by machine, in this session
	refusals int
	held     bool
	enough   bool // there was a Node for each Pod since the Pods are those that they are
	short    int  // how often there was none any more
}

type node struct {
	uid      string
	pod      string
	cordoned bool
}

// report is what was said of a Node last.
type report struct {
	uid string
	pod bool
}

// drain is that of one Node.
type drain struct {
	machine, instruction          string
	condemned, over, acknowledged bool
	busy, voluntary               bool // a Pod ran on it when it began
	begun                         int  // how often it was cordoned
	told                          int  // how often its end was reported in the session
}

func newCluster(dir string) cluster {
	return cluster{
		dir: dir, nodes: map[string]*node{}, joins: map[string][]string{}, pods: map[string]string{}, drains: map[string]*drain{}, reported: map[string]report{},
	}
}

// script makes a machine join, and prepares its leaving.
func (c *cluster) script(machines, id string) string {
	leave, file := filepath.Join(machines, id, "leave.d", "10-node"), filepath.Join(c.dir, id)
	return fmt.Sprintf("#!/bin/sh\nset -eu\nprintf '#!/bin/sh\\nrm -f %s\\n' >%s\nchmod 700 %s\necho \"$NSTANCE_BINDING_ID\" >%s.part\nmv %s.part %s\n", file, leave, leave, file, file, file)
}

// want makes the Pods those of a set: others end.
func (c *cluster) want(pods map[string]bool) {
	for pod, on := range c.pods {
		if !pods[pod] {
			c.unbind(on)
			delete(c.pods, pod)
		}
	}
	for pod := range pods {
		if _, there := c.pods[pod]; !there {
			c.pods[pod] = ""
		}
	}
	c.enough = false
}

// count notes whether there is a Node for each Pod: once there is, none of them may be taken away.
func (c *cluster) count() {
	usable := 0
	for _, n := range c.nodes {
		if !n.cordoned {
			usable++
		}
	}
	switch {
	case usable >= len(c.pods):
		c.enough = true
	case c.enough:
		c.enough = false
		c.short++
	}
}

// unbind takes the Pod off a Node.
func (c *cluster) unbind(machine string) {
	if n := c.nodes[machine]; n != nil && n.pod != "" {
		c.pods[n.pod] = ""
		n.pod = ""
	}
}

// condemn begins to drain the Node of an instance that is to go. Where it has none there is nothing to be moved.
func (c *cluster) condemn(machine string) {
	d := c.drainOf(machine)
	if d == nil {
		if d = c.drains[machine]; d == nil {
			d = &drain{machine: machine, over: true}
			c.drains[machine] = d
		}
	}
	d.condemned = true
}

// drain begins to drain a Node for an instruction; false: there is none.
func (c *cluster) drain(machine, instruction string, voluntary bool) bool {
	d := c.drainOf(machine)
	if d == nil {
		return false
	}
	d.instruction, d.voluntary, d.told = instruction, voluntary, 0 // a new leader has not heard of the end
	return true
}

// drainOf is the drain of a machine's Node, which begins with it.
func (c *cluster) drainOf(machine string) *drain {
	n := c.nodes[machine]
	if n == nil {
		return nil
	}
	d := c.drains[n.uid]
	if d == nil {
		d = &drain{machine: machine, busy: n.pod != ""}
		c.drains[n.uid] = d
	}
	if !n.cordoned {
		n.cordoned = true
		d.begun++
	}
	return d
}

// uncordon stops a drain that was cancelled.
func (c *cluster) uncordon(machine string) {
	if n := c.nodes[machine]; n != nil && n.cordoned {
		if d := c.drains[n.uid]; d != nil && d.condemned {
			return
		}
		n.cordoned = false
		delete(c.drains, n.uid)
	}
}

// lose forgets a machine that is gone.
func (c *cluster) lose(machine string) {
	_ = os.Remove(filepath.Join(c.dir, machine)) // it may have left
	c.gone(machine)
}

func (c *cluster) gone(machine string) {
	c.unbind(machine)
	delete(c.nodes, machine)
	delete(c.reported, machine)
}

// step looks at which Nodes there are, places Pods and drains. It returns drains that are over.
func (c *cluster) step(machines map[string]*demandpb.NodeStateUpdate) (over []*drain) {
	c.look()
	c.count()
	free := slices.DeleteFunc(slices.Sorted(maps.Keys(c.nodes)), func(id string) bool {
		n, state := c.nodes[id], machines[id].GetState()
		return n.pod != "" || n.cordoned || state != demandpb.MachineState_MACHINE_STATE_CONFIGURED
	})
	for _, pod := range slices.Sorted(maps.Keys(c.pods)) {
		if c.pods[pod] == "" && len(free) > 0 {
			c.pods[pod], c.nodes[free[0]].pod = free[0], pod
			free = free[1:]
		}
	}
	for _, d := range c.drains {
		if !c.held && !d.over {
			c.unbind(d.machine)
			d.over = true
		}
		if d.over && d.instruction != "" && d.told < 3 { // a session may break before it has arrived
			d.told++
			over = append(over, d)
		}
	}
	return over
}

// look reads the directory.
func (c *cluster) look() {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	there := map[string]bool{}
	for _, e := range entries {
		id := e.Name()
		data, err := os.ReadFile(filepath.Join(c.dir, id))
		uid := strings.TrimSpace(string(data))
		if err != nil || uid == "" || strings.HasSuffix(id, ".part") {
			continue
		}
		there[id] = true
		if have := c.nodes[id]; have == nil || have.uid != uid {
			c.gone(id)
			c.nodes[id] = &node{uid: uid}
			c.joins[id] = append(c.joins[id], uid)
		}
	}
	for id := range c.nodes {
		if !there[id] {
			c.gone(id)
		}
	}
}

// reports are those of Nodes of which something is new, and after a roll-up those of empty ones.
func (c *cluster) reports(machines map[string]*demandpb.NodeStateUpdate, rolled bool) (all []*demandpb.NodeReport) {
	for _, id := range slices.Sorted(maps.Keys(c.nodes)) {
		n, now := c.nodes[id], time.Now()
		is := report{n.uid, n.pod != ""}
		if machines[id] == nil || c.reported[id] == is && (!rolled || is.pod) {
			continue
		}
		c.reported[id] = is
		pods := int32(0)
		if is.pod {
			pods = 1
		}
		all = append(all, &demandpb.NodeReport{
			MachineId: id, NodeName: id, NodeUid: n.uid, Ready: true, ObservedUnixMs: now.UnixMilli(), EvictablePods: &pods,
		})
	}
	return all
}

// report says that a Node is empty.
func (d *drain) report() *demandpb.NodeReport {
	return &demandpb.NodeReport{MachineId: d.machine, NodeName: d.machine, Drained: true, InstructionId: d.instruction, ObservedUnixMs: time.Now().UnixMilli()}
}
