package document

// Modes of a group.
const (
	ModeFixed  = "fixed"
	ModeDemand = "demand"
)

// Demand is what a group of mode demand sets. Its machines are bought and given back as the
// Kubernetes cluster of its tenant needs them, within these bounds.
type Demand struct {
	// Machines that are kept whether or not they are needed. Default 0.
	Min *int `json:"min,omitempty" jsonschema:"minimum=0,maximum=1000000"`
	// Most machines that the group may have. Default: no limit of its own.
	Max *int `json:"max,omitempty" jsonschema:"minimum=0,maximum=1000000"`
	// Machines without work that are kept running and registered, so that the next Pods wait for no boot. Default 0.
	MinIdle *int `json:"min_idle,omitempty" jsonschema:"minimum=0,maximum=1000000"`
	// How machines may be paid for. Default ["on-demand"]. Reserved ones come from reservations.
	CapacityTypes []string `json:"capacity_types,omitzero" jsonschema:"enum=on-demand,enum=spot,enum=bare-metal"`
	// How a machine is told which cluster to join: by its agent once it runs (agent, the default), or in its user data, which is faster for a single join and leaves no machine to be used again (user_data).
	Configure string `json:"configure,omitempty" jsonschema:"enum=agent,enum=user_data"`
	// How long a machine without work is kept before it is deleted. Default: 10m for on-demand, 1m for spot. Reserved and bare-metal ones are kept for ever, whatever stands here.
	ReleaseHold *Duration `json:"release_hold,omitempty"`
	// How long a machine is not needed before its Pods are moved away. Default 1m.
	ScaleDownDelay *Duration `json:"scale_down_delay,omitempty"`
	// How long a machine is kept after it has joined, unless nothing runs on it. Default 5m.
	MinLifetime *Duration `json:"min_lifetime,omitempty"`
	// How long the Node of a machine may take to become ready; then the machine is replaced. Default 10m.
	JoinDeadline *Duration `json:"join_deadline,omitempty"`
	// What becomes of a machine when it has left its cluster: it waits for other work (idle), or it is deleted (delete). Default: delete for spot, else idle; with configure user_data always delete.
	AfterDrain string `json:"after_drain,omitempty" jsonschema:"enum=idle,enum=delete"`
	// What happens when the Pods of a machine that is not needed have not left it in time: it stays (abort, the default), or it is taken nevertheless (force).
	OnDrainTimeout string `json:"on_drain_timeout,omitempty" jsonschema:"enum=abort,enum=force"`
	// How much one machine takes of a quota pool that counts machines. Default 1.
	Weight *int `json:"weight,omitempty" jsonschema:"minimum=1,maximum=1000000"`
	// Bounds of the sums over the group's machines. Default: none.
	Limits *DemandLimits `json:"limits,omitempty"`
	// Capacity that is paid for already and taken first.
	Reservations []Reservation `json:"reservations,omitempty"`
	// How many machines may drain at once for what is not urgent. The least of the entries in force counts. Default: the server's own bounds alone.
	Disruption []DisruptionBudget `json:"disruption,omitempty"`
	// Whether machines are replaced by cheaper ones.
	Consolidation *Consolidation `json:"consolidation,omitempty"`
}

// Ways in which machines are paid for.
const (
	CapacityOnDemand  = "on-demand"
	CapacitySpot      = "spot"
	CapacityReserved  = "reserved"
	CapacityBareMetal = "bare-metal"
)

// Values of [Demand].
const (
	ConfigureAgent    = "agent"
	ConfigureUserData = "user_data"
	AfterDrainIdle    = "idle"
	AfterDrainDelete  = "delete"
	DrainTimeoutAbort = "abort"
	DrainTimeoutForce = "force"
)

// DemandLimits bound the sums over all machines of a group that are not gone. What is absent has no bound.
type DemandLimits struct {
	// Virtual processors.
	VCPU *int64 `json:"vcpu,omitempty" jsonschema:"minimum=0"`
	// Memory, in GiB.
	MemoryGiB *int64 `json:"memory_gib,omitempty" jsonschema:"minimum=0"`
	// Accelerators, by the name of their resource, such as "nvidia.com/gpu".
	GPU map[string]int64 `json:"gpu,omitempty"`
	// US dollars an hour. Reserved machines count with their real price.
	HourlySpend *USD `json:"hourly_spend,omitempty"`
}

// Reservation is capacity at the provider that is paid for whether or not it is used.
type Reservation struct {
	// The provider's id of it, such as "cr-0123456789abcdef0".
	ID string `json:"id"`
	// Instance type.
	InstanceType string `json:"instance_type"`
	// Zone. Entries of other zones than the shard's have no effect in it. Default: the shard's.
	Zone string `json:"zone,omitempty"`
	// How many machines.
	Count int `json:"count" jsonschema:"minimum=1,maximum=1000000"`
}

// DisruptionBudget bounds how many machines of a group drain together for some reasons. Machines that are ill, that the
// provider takes back, that somebody deletes or that a higher priority takes are never bounded.
type DisruptionBudget struct {
	// How many: a number, or percent of the group's machines that have joined, rounded up. 0 is none at all.
	Nodes NodeCount `json:"nodes"`
	// Reasons that it bounds. Default: all of them.
	Reasons []string `json:"reasons,omitempty" jsonschema:"enum=empty,enum=surplus,enum=consolidation,enum=drift,enum=expiry"`
	// When it comes into force: minute, hour, day of month, month, day of week, in UTC. Default: it always is.
	Schedule string `json:"schedule,omitempty"`
	// How long it then stays in force; required with a schedule.
	Duration Duration `json:"duration,omitempty"`
}

// Consolidation is the replacement of machines by cheaper ones that do the same.
type Consolidation struct {
	// Whether it is done at all. Default false.
	Enabled bool `json:"enabled,omitempty"`
	// What it has to save of the cost of the machines that it replaces, 0 to 1. Default 0.15.
	MinSaving *Fraction `json:"min_saving,omitempty"`
}

// DisruptionReasons are the reasons of a [DisruptionBudget].
var DisruptionReasons = []string{"empty", "surplus", "consolidation", "drift", "expiry"}

// InstanceRequirements choose instance types by what they are, out of those that the provider offers. Every one that is set has to hold.
type InstanceRequirements struct {
	// Processor architectures; the template's has to be among them. Default: the template's.
	Arch []string `json:"arch,omitempty" jsonschema:"enum=amd64,enum=arm64"`
	// Virtual processors.
	VCPU *Range `json:"vcpu,omitempty"`
	// Memory, in GiB.
	MemoryGiB *Range `json:"memory_gib,omitempty"`
	// Accelerators. Default: types that have any are left out.
	GPU *GPURequirements `json:"gpu,omitempty"`
	// Families of types, one of which it has to be, such as "m7g".
	FamiliesIn []string `json:"families_in,omitempty"`
	// Families of types that it must not be of.
	FamiliesOut []string `json:"families_out,omitempty"`
}

// GPURequirements are about the accelerators of a type, of which it has at least one.
type GPURequirements struct {
	// Models, in the provider's words, one of which it has to be. Default: any.
	Names []string `json:"names,omitempty"`
	// How many.
	Count *Range `json:"count,omitempty"`
	// Memory of all of them together, in GiB.
	MemoryGiB *Range `json:"memory_gib,omitempty"`
}

// Range is from a number to another one, both included. An absent one is no bound.
type Range struct {
	// The least.
	Min *int64 `json:"min,omitempty" jsonschema:"minimum=0"`
	// The most.
	Max *int64 `json:"max,omitempty" jsonschema:"minimum=0"`
}

// Has says whether n is in the range. A nil Range has everything.
func (r *Range) Has(n int64) bool {
	return r == nil || (r.Min == nil || n >= *r.Min) && (r.Max == nil || n <= *r.Max)
}

// NoMax stands for a group without a [Demand.Max].
const NoMax = -1
