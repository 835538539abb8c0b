package metrics

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/rollout"
)

// The labels of host machines.
var (
	byConfiguration = Label{Name: "configuration"}
	byDeployed      = Label{"deployed", []string{"true", "false"}}
	byPhase         = Label{"phase", []string{
		"none", string(hostsv1.PhaseDeleting), string(hostsv1.PhaseDiscovered), string(hostsv1.PhaseFailed), string(hostsv1.PhaseOff), string(hostsv1.PhasePending),
		string(hostsv1.PhaseProvisioning), string(hostsv1.PhaseAwaitingConfiguration), string(hostsv1.PhasePaving), string(hostsv1.PhaseJoining),
		string(hostsv1.PhaseRepaving), string(hostsv1.PhaseReady), string(hostsv1.PhaseNotReady),
	}}
	byPending = Label{"reason", []string{
		hostsv1.ReasonNoMatch, hostsv1.ReasonConfigurationNotFound, hostsv1.ReasonVersionNotFound, hostsv1.ReasonVersionSkew,
		hostsv1.ReasonConfigurationPaused, hostsv1.ReasonSecretNotFound, hostsv1.ReasonNodeNameConflict, other,
	}}
	byVersionWrite = Label{"action", []string{"raise", "reserve", "create", "record", "clear", "copy", "lock", "delete"}}
	byRefusal      = Label{"reason", []string{"changed", "referenced", "not-lockable", "unresolved"}}
	byRepave       = Label{"reason", []string{"FirstPave", "Adopted", "NodeDeleted", "NodeReplaced", "Retried", "Recovered", other}}
	byRepaveResult = Label{"result", []string{"Joined", "Reverted", "Held", other}}
	byRolloutStep  = Label{"action", []string{"begin", "replace", "skip", "abandon", "finish", "fail", other}}
	byRolloutState = Label{"state", []string{"updated", "updating", "failed"}}
	byTrouble      = Label{"condition", []string{hostsv1.ConditionRepaveFailed, repaveOverdue, fleetBrake, hostsv1.ConditionConfigurationDrifted}}
	byPrebuild     = Label{"result", []string{"Done", "Failed", "TimedOut", "Unsupported"}}
	byDecision     = Label{"decision", []string{"approve", "deny"}}
	byOperation    = Label{"name", []string{
		hostsv1.OperationReboot, hostsv1.OperationShutdown, hostsv1.OperationRestartService, hostsv1.OperationRestartMachine, hostsv1.OperationRepave,
		hostsv1.OperationApplyConfiguration, hostsv1.OperationPowerOff, hostsv1.OperationPowerOn, hostsv1.OperationPowerCycle,
		hostsv1.OperationCollectLogs, hostsv1.OperationResetHost, other,
	}}
	byOperationResult = Label{"result", []string{
		hostsv1.ReasonSucceeded, hostsv1.ReasonExecutorFailed, hostsv1.ReasonInvalidParameters, hostsv1.ReasonMachineReplaced, hostsv1.ReasonNoExecutor,
		hostsv1.ReasonExpired, hostsv1.ReasonTimeout, hostsv1.ReasonExecutorLost, hostsv1.ReasonInterrupted, hostsv1.ReasonRefusedByHost,
		hostsv1.ReasonNoMachines, hostsv1.ReasonChildrenFailed, hostsv1.ReasonCancelled, other,
	}}
)

// What is counted of HostMachines beside the conditions that are named alike.
const (
	repaveOverdue = "RepaveOverdue" // what was begun more than overdueAfter ago has not joined
	fleetBrake    = "FleetBrake"    // a repave waits because too many Nodes went missing at once
	overdueAfter  = 45 * time.Minute
)

// The metrics of host machines.
var (
	hostTrouble     = Metric{"machines_conditions", Gauge, []Label{byTrouble}, "HostMachines that need a look: their repave was given up, is not over after 45 minutes, or waits because too many Nodes went missing at once; or files on the host are not as they were written.", nil}
	hostMachines    = Metric{"machines_machines", Gauge, []Label{byPhase}, "HostMachines by phase; none: the operator has not looked at it yet.", nil}
	hostPending     = Metric{"machines_configuration_pending", Gauge, []Label{byPending}, "HostMachines that wait for a configuration, by what they wait for.", nil}
	hostVersions    = Metric{"machines_versions", Gauge, []Label{byConfiguration, byDeployed}, "Versions of a MachineConfiguration; deployed: they are locked.", nil}
	versionWrites   = Metric{"machines_version_writes_total", Counter, []Label{byVersionWrite}, "Steps that were written to keep versions: numbers raised, reserved and cleared, versions created, recorded, edited (copy), locked and deleted.", nil}
	versionRefusals = Metric{"machines_version_refusals_total", Counter, []Label{byRefusal}, "Steps that were refused: what they follow from had changed, a machine refers to the version, it cannot be locked, or the tag of its image was not resolved. All but not-lockable are tried again.", nil}
)

// The metrics of the nodes of host machines.
var (
	repaves      = Metric{"machines_repave_total", Counter, []Label{byRepave, byRepaveResult}, "Assignments that ended, by why they were made and what became of them; other results: the host never replaced what it ran.", nil}
	nodeAway     = Metric{"machines_node_deleted_to_ready_seconds", Histogram, nil, "Time from when a Node was missed until its machine had joined again.", []float64{15, 30, 45, 60, 90, 120, 180, 300, 600, 900, 1800}}
	hostRequests = Metric{"machines_csr_total", Counter, []Label{byDecision}, "Certificate signing requests of the kubelets of host machines that were decided.", nil}
)

// The metrics of rollouts.
var (
	rolloutSteps = Metric{"machines_rollout_steps_total", Counter, []Label{byRolloutStep}, "Steps of rollouts with single machines: begun, their Nodes deleted (replace), skipped because their Pods did not leave, left as they were (abandon), finished, and failed.", nil}
	rollouts     = Metric{"machines_rollout_machines", Gauge, []Label{byConfiguration, byRolloutState}, "Machines of a MachineConfiguration that has a rollout: updated run its target, updating were begun, failed were given up.", nil}
	rolloutHalts = Metric{"machines_rollout_halted", Gauge, []Label{byConfiguration}, "1 while the rollout of a MachineConfiguration has halted because of failures.", nil}
)

// The metrics of what is prepared on machines.
var (
	prebuildResults = Metric{"machines_prebuild_total", Counter, []Label{byPrebuild}, "Preparations of machines that have ended; those that failed, timed out or are not supported by the host change nothing on its machine.", nil}
	prebuilt        = Metric{"machines_prebuilt", Gauge, []Label{byConfiguration}, "Machines of a MachineConfiguration with spec.prebuild on which its newest version is prepared.", nil}
	prebuilding     = Metric{"machines_prebuilding", Gauge, []Label{byConfiguration}, "Machines on which a version of a MachineConfiguration is being prepared; never more than its maxConcurrent.", nil}
)

// The metrics of operations on host machines.
var (
	operationResults = Metric{"machines_operations_total", Counter, []Label{byOperation, byOperationResult}, "MachineOperations that have finished, those of a selector and of each of its machines alike; name other: a custom one.", nil}
	operationTimes   = Metric{"machines_operation_duration_seconds", Histogram, []Label{byOperation}, "Time from when an executor took a MachineOperation until it had finished.", []float64{1, 5, 15, 30, 60, 120, 300, 600, 1200, 2700}}
)

// HostMachines returns the metrics of host machines.
func HostMachines() []Metric {
	return []Metric{hostMachines, hostTrouble, hostPending, hostVersions, versionWrites, versionRefusals, repaves, nodeAway, hostRequests, operationResults, operationTimes, rolloutSteps, rollouts, rolloutHalts, prebuildResults, prebuilt, prebuilding}
}

// Hosts counts what becomes of versions, and collects HostMachines and versions from objects at each scrape. It is
// safe for concurrent use; NewHosts makes one.
type Hosts struct {
	reader                              client.Reader
	now                                 func() time.Time
	writes, refusals, repaves, requests *prometheus.CounterVec
	operations, steps, prepared         *prometheus.CounterVec
	away, took                          *prometheus.HistogramVec
}

// NewHosts returns metrics that a registry shows; the reader should answer from a cache.
func NewHosts(reader client.Reader, registry prometheus.Registerer, now func() time.Time) *Hosts {
	h := &Hosts{
		reader: reader, now: now, writes: versionWrites.counter(), refusals: versionRefusals.counter(),
		repaves: repaves.counter(), requests: hostRequests.counter(), away: nodeAway.histogram(),
		operations: operationResults.counter(), took: operationTimes.histogram(),
		steps: rolloutSteps.counter(), prepared: prebuildResults.counter(),
	}
	registry.MustRegister(h, h.writes, h.refusals, h.repaves, h.requests, h.away, h.operations, h.took, h.steps, h.prepared)
	return h
}

// Repaved notes the end of an assignment: why it was made, and what became of it.
func (h *Hosts) Repaved(reason, result string) {
	h.repaves.WithLabelValues(known(byRepave, reason), known(byRepaveResult, result)).Inc()
}

// RolledOut notes a step of a rollout with a machine.
func (h *Hosts) RolledOut(a rollout.Action) {
	h.steps.WithLabelValues(known(byRolloutStep, string(a))).Inc()
}

// Prepared notes how the preparation of a machine ended.
func (h *Hosts) Prepared(result string) { h.prepared.WithLabelValues(result).Inc() }

// Back notes how long a Node was away that was deleted.
func (h *Hosts) Back(took time.Duration) { h.away.WithLabelValues().Observe(took.Seconds()) }

// Request notes a certificate signing request that was approved or denied.
func (h *Hosts) Request(decision string) { h.requests.WithLabelValues(decision).Inc() }

// OperationFinished notes a MachineOperation that has finished.
func (h *Hosts) OperationFinished(op *hostsv1.MachineOperation) {
	name := known(byOperation, op.Spec.OperationName)
	h.operations.WithLabelValues(name, known(byOperationResult, op.Status.Reason)).Inc()
	if s := op.Status; s.StartTime != nil && s.CompletionTime != nil {
		h.took.WithLabelValues(name).Observe(s.CompletionTime.Sub(s.StartTime.Time).Seconds())
	}
}

// Wrote notes a step of a version that was written; action is one of the label's values.
func (h *Hosts) Wrote(action string) { h.writes.WithLabelValues(action).Inc() }

// Refused notes a step that was refused; reason is one of the label's values.
func (h *Hosts) Refused(reason string) { h.refusals.WithLabelValues(reason).Inc() }

// Describe implements [prometheus.Collector].
func (*Hosts) Describe(out chan<- *prometheus.Desc) {
	for _, m := range []Metric{hostMachines, hostTrouble, hostPending, hostVersions, rollouts, rolloutHalts, prebuilt, prebuilding} {
		out <- m.desc()
	}
}

// Collect implements [prometheus.Collector]. What cannot be read is left out.
func (h *Hosts) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	var machines hostsv1.HostMachineList
	if h.reader.List(ctx, &machines, client.UnsafeDisableDeepCopy) == nil {
		collectMachines(machines.Items, h.now(), out)
	}
	var versions hostsv1.MachineConfigurationVersionList
	if h.reader.List(ctx, &versions, client.UnsafeDisableDeepCopy) == nil {
		collectVersions(versions.Items, out)
	}
	var configurations hostsv1.MachineConfigurationList
	if h.reader.List(ctx, &configurations, client.UnsafeDisableDeepCopy) == nil {
		collectRollouts(configurations.Items, out)
		collectPrebuilds(configurations.Items, machines.Items, out)
	}
}

func collectRollouts(configurations []hostsv1.MachineConfiguration, out chan<- prometheus.Metric) {
	for i := range configurations {
		c := &configurations[i]
		r := c.Status.Rollout
		if r == nil {
			continue
		}
		for state, n := range map[string]int{"updated": int(r.Updated), "updating": len(r.Updating), "failed": int(r.Failures)} {
			out <- gauge(rollouts, float64(n), c.Name, state)
		}
		halted := 0.0
		if meta.IsStatusConditionTrue(c.Status.Conditions, hostsv1.ConditionRolloutHalted) {
			halted = 1
		}
		out <- gauge(rolloutHalts, halted, c.Name)
	}
}

// troubles are those of a machine that are counted.
func troubles(m *hostsv1.HostMachine, now time.Time) (all []string) {
	for _, of := range []string{hostsv1.ConditionRepaveFailed, hostsv1.ConditionConfigurationDrifted} {
		if meta.IsStatusConditionTrue(m.Status.Conditions, of) {
			all = append(all, of)
		}
	}
	if c := meta.FindStatusCondition(m.Status.Conditions, hostsv1.ConditionRepavePending); c != nil && c.Status == metav1.ConditionTrue && c.Reason == hostsv1.ReasonHeldPrefix+fleetBrake {
		all = append(all, fleetBrake)
	}
	switch m.Status.Phase {
	case hostsv1.PhasePaving, hostsv1.PhaseJoining, hostsv1.PhaseRepaving:
		if r := m.Status.Repave; r != nil && r.StartedAt != nil && now.Sub(r.StartedAt.Time) >= overdueAfter {
			all = append(all, repaveOverdue)
		}
	default:
	}
	return all
}

// collectPrebuilds shows what is prepared, of the configurations that have something prepared.
func collectPrebuilds(configurations []hostsv1.MachineConfiguration, machines []hostsv1.HostMachine, out chan<- prometheus.Metric) {
	running := map[string]int{}
	for i := range machines {
		if p := machines[i].Status.Prebuild; p != nil && p.State == hostsv1.PrebuildRunning {
			running[string(p.Name)]++
		}
	}
	for i := range configurations {
		c := &configurations[i]
		if p := c.Spec.Prebuild; p == nil || p.Mode == "" || p.Mode == hostsv1.PrebuildOff {
			continue
		}
		done := 0
		if c.Status.Machines != nil {
			done = int(c.Status.Machines.Prebuilt)
		}
		out <- gauge(prebuilt, float64(done), c.Name)
		out <- gauge(prebuilding, float64(running[c.Name]), c.Name)
	}
}

func collectMachines(machines []hostsv1.HostMachine, now time.Time, out chan<- prometheus.Metric) {
	phases, waiting, trouble := map[string]int{}, map[string]int{}, map[string]int{}
	for i := range machines {
		m := &machines[i]
		phase := string(m.Status.Phase)
		if phase == "" {
			phase = "none"
		}
		phases[phase]++
		if c := meta.FindStatusCondition(m.Status.Conditions, hostsv1.ConditionConfigurationPending); c != nil && c.Status == metav1.ConditionTrue {
			waiting[known(byPending, c.Reason)]++
		}
		for _, what := range troubles(m, now) {
			trouble[what]++
		}
	}
	for _, what := range byTrouble.Values {
		out <- gauge(hostTrouble, float64(trouble[what]), what)
	}
	for _, phase := range byPhase.Values {
		out <- gauge(hostMachines, float64(phases[phase]), phase)
	}
	for _, reason := range byPending.Values {
		out <- gauge(hostPending, float64(waiting[reason]), reason)
	}
}

func collectVersions(versions []hostsv1.MachineConfigurationVersion, out chan<- prometheus.Metric) {
	type series struct {
		configuration string
		deployed      bool
	}
	counts := map[series]int{}
	for i := range versions {
		v := &versions[i]
		name := string(v.Spec.ConfigurationName)
		counts[series{name, true}] += 0
		counts[series{name, false}] += 0
		counts[series{name, v.Status.Deployed}]++
	}
	for s, n := range counts {
		out <- gauge(hostVersions, float64(n), s.configuration, strconv.FormatBool(s.deployed))
	}
}
