package demandloop

import (
	"errors"
	"fmt"
	"maps"
	"time"

	agentbinding "nstance.dev/protos/binding"
	"nstance.dev/server/binding"
	"nstance.dev/server/demand"
	"nstance.dev/server/demand/match"
	"nstance.dev/server/layout"
)

const (
	blobWait  = 30 * time.Second
	blobTries = 5
)

// joining brings machines into the clusters that they are meant for.
type joining struct{ *core }

// prepare asks for what a machine that is meant for a cluster needs to join it, or joins it where it has
// that already.
func (c joining) prepare(m *machine, s *sight) {
	if s.rec.Machine { // being bound makes its HostMachine, from which its node is built
		name := c.opts.Random()
		c.write(m, "configure", func(rec *layout.InstanceRecord) error { return binding.Configure(rec, name, c.opts.Now()) }, func() { m.join.toldJoining = false })
		return
	}
	if s.group.UserData {
		name := c.opts.Random()
		c.write(m, "configure", func(rec *layout.InstanceRecord) error { return binding.Configure(rec, name, c.opts.Now()) }, nothing)
		return
	}
	if m.join.able != able {
		return // its agent will say
	}
	c.request(m, s)
}

// request asks the operator of a machine's cluster for what it takes to join, and again when it has not
// answered in time.
func (c joining) request(m *machine, s *sight) {
	cluster := c.clusters[s.rec.Binding.Cluster]
	switch {
	case m.join.ask != nil && c.now.Before(m.join.ask.deadline):
		c.agenda.add(m, m.join.ask.deadline)
		return
	case c.expired(m):
		c.fail(m, "BootstrapTimeout", fmt.Sprintf("the operator has not answered %d requests for what it takes to join", m.join.tries))
		return
	case !cluster.live():
		return // its next session begins with it
	}
	c.put(m, cluster)
	cluster.tell(c.bootstrapRequest(m, s, cluster))
}

// put notes that a cluster is asked.
func (c joining) put(m *machine, cluster *cluster) {
	m.join.ask = &ask{request: c.opts.Random(), cluster: cluster, deadline: c.now.Add(blobWait)}
	cluster.asks[m.join.ask.request] = m
	c.agenda.add(m, m.join.ask.deadline)
}

// expired gives up an ask whose time is over, and reports whether it was the last one.
func (c joining) expired(m *machine) bool {
	if m.join.ask == nil {
		return false
	}
	c.unask(m)
	c.opts.Metrics.blob("timeout", blobWait)
	c.tellNotJoining(m)
	m.join.tries++
	return m.join.tries >= blobTries
}

func (c joining) bootstrapRequest(m *machine, s *sight, cluster *cluster) BootstrapRequest {
	n := framing(c).frame(m, s)
	return BootstrapRequest{
		Request: m.join.ask.request, Machine: n.Machine, InstanceType: n.InstanceType, Zone: n.Zone, CapacityType: n.CapacityType,
		Requirements: cluster.requirements(binding.StampOf(s.rec.Binding).Need),
		Labels:       n.Labels, Taints: n.Taints, StartupTaints: n.StartupTaints, Vars: s.group.Vars, Deadline: m.join.ask.deadline,
	}
}

// tellNotJoining tells the engine that a machine which it took for joining does not.
func (c joining) tellNotJoining(m *machine) {
	if m.join.toldJoining {
		m.join.toldJoining = false
		c.feed.tell(demand.Changed{ID: m.id.String(), State: demand.Idle})
		m.told = demand.Idle
	}
}

// answered takes in what a machine needs to join, for which its cluster was asked.
func (c joining) answered(m *machine, blob Blob) {
	if m.turn.busy {
		return
	}
	c.opts.Metrics.blob("answered", c.now.Sub(m.join.ask.deadline.Add(-blobWait)))
	c.unask(m)
	if m.join.buying != nil {
		c.bought(m, blob)
		return
	}
	s, ok := c.see(m.id)
	if !ok || s.station.Leaving || s.rec.Binding == nil {
		return
	}
	join := agentbinding.Join{Binding: s.rec.Binding.ID, Blob: blob.UserData, Node: c.node(m, &s)}
	switch {
	case s.intent():
		join.Binding = c.opts.Random()
	case s.station.State != demand.Configuring:
		return
	}
	why := blob.Error
	if why == "" {
		if err := join.Check(); err != nil {
			why = err.Error()
		}
	}
	switch {
	case why != "" && s.intent():
		c.refused(m, s.rec.Binding.Cluster, why)
	case why != "":
		c.later(m)
	case s.intent():
		c.write(m, "configure", func(rec *layout.InstanceRecord) error { return binding.Configure(rec, join.Binding, c.opts.Now()) },
			func() {
				m.join.tries, m.join.toldJoining = 0, false
				c.send(m, join)
			})
	default:
		c.send(m, join)
	}
}

// refused leaves a machine idle because its cluster cannot be joined.
func (c joining) refused(m *machine, cluster, why string) {
	c.opts.Log.Warn("machine cannot join its cluster", "machine", m.id, "cluster", cluster, "reason", why)
	c.write(m, "free", binding.Free, func() {
		m.join.tries, m.join.toldJoining = 0, false
		c.feed.tell(demand.BlobFailed{ID: m.id.String()})
		m.told = demand.Idle
		framing(c).withdraw(m)
	})
}

// send tells the agent to join.
func (c joining) send(m *machine, join agentbinding.Join) {
	switch err := c.opts.Machines.Join(m.id, join); {
	case err == nil:
		m.join.rejoin, m.join.sent = false, join.Binding
	case errors.Is(err, ErrNoCapability):
		m.join.able = unable
		c.fail(m, "NoClusterCapability", err.Error())
	case errors.Is(err, ErrNotConnected): // it says what it knows when it is there again
	default:
		c.opts.Log.Warn("machine not told to join", "machine", m.id, "error", err)
		m.join.rejoin = true
		c.later(m)
	}
}

// goOn has a machine told again to join whose agent does not know of that.
func (c joining) goOn(m *machine, s *sight) {
	cluster := c.clusters[s.rec.Binding.Cluster]
	switch {
	case s.rec.Machine:
		c.wait(m, s)
	case s.group.UserData && cluster.live() && !cluster.hello.NodeReports:
		c.ready(m) // no more will be known of it than that it has registered
	case m.join.rejoin && m.join.able == able && !s.group.UserData:
		c.request(m, s)
	}
}

// wait has a machine wait, for as long as it takes, for the configuration that its node is built from. Once its host was
// told what to build, it has to join in time as any other.
func (c joining) wait(m *machine, s *sight) {
	if m.join.waits == !s.host.Assigned || m.told != demand.Configuring {
		return
	}
	why := demand.Reason("")
	if m.join.waits = !s.host.Assigned; m.join.waits {
		why = demand.ConfigurationPending
	}
	c.feed.tell(demand.Waits{ID: m.id.String(), For: why})
}

// reported takes in what an agent says of the joining of its machine. An agent answers each join by a report of that
// binding, so what it reports of another one before that it said before it was told.
func (c joining) reported(m *machine, s *sight, r agentbinding.Report) {
	if m.join.sent != "" && r.Binding != m.join.sent {
		return
	}
	m.join.sent = ""
	if s.station.State != demand.Configuring || s.group.UserData || s.rec.Machine {
		return
	}
	cluster := c.clusters[s.rec.Binding.Cluster]
	switch {
	case r.Binding != s.rec.Binding.ID:
		m.join.rejoin = true
		c.goOn(m, s)
	case r.Action == agentbinding.Joining && r.State == agentbinding.Failed:
		c.fail(m, "ConfigureFailed", fmt.Sprintf("exit code %d %s", r.ExitCode, r.Error))
	case r.Action == agentbinding.Joining && r.State == agentbinding.Done && cluster.live() && !cluster.hello.NodeReports:
		c.ready(m) // no more will be known of it
	}
}

// ready notes that the Node of a machine is ready.
func (c joining) ready(m *machine) {
	c.write(m, "bind", func(rec *layout.InstanceRecord) error { return binding.Join(rec, c.opts.Now()) }, nothing)
}

// fail gives a machine up for good. It is deleted by the engine after a while.
func (c joining) fail(m *machine, reason, detail string) {
	if m.turn.busy {
		return
	}
	c.opts.Metrics.failed(reason)
	c.write(m, "fail", func(rec *layout.InstanceRecord) error {
		binding.Fail(rec, reason, detail, c.opts.Now())
		return nil
	}, func() {
		c.unask(m)
		m.join.toldJoining, m.failure = false, demand.FailureOther // as one that does not join
		c.opts.Log.Warn("machine given up", "machine", m.id, "cluster", m.about.cluster, "reason", reason, "detail", detail)
	})
}

// node is what the kubelet of a machine has to register.
func (c joining) node(m *machine, s *sight) agentbinding.Node {
	n := framing(c).frame(m, s)
	return agentbinding.Node{Labels: maps.Clone(n.Labels), Taints: taints(n.Taints), StartupTaints: taints(n.StartupTaints)}
}

func taints(all []match.Taint) []agentbinding.Taint {
	var out []agentbinding.Taint
	for _, t := range all {
		out = append(out, agentbinding.Taint{Key: t.Key, Value: t.Value, Effect: effectName(t.Effect)})
	}
	return out
}

func effectName(e match.Effect) string {
	switch e {
	case match.PreferNoSchedule:
		return "PreferNoSchedule"
	case match.NoExecute:
		return "NoExecute"
	default:
		return "NoSchedule"
	}
}
