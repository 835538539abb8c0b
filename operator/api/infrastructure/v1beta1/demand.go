package v1beta1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DemandSettings bound a group that buys and gives back machines as the Pods of the cluster need
// them, and say how it treats these machines. Of a pool, min, max, minIdle and limits are about
// all its shards together: each shard gets an equal part, and what is left over goes to those
// listed first. All other settings hold on each shard. What is absent has the default of the
// servers.
//
// +kubebuilder:validation:XValidation:rule="!has(self.max) || !has(self.min) || self.min <= self.max",message="min is above max; lower min, or raise max"
// +kubebuilder:validation:XValidation:rule="!has(self.max) || !has(self.minIdle) || self.minIdle <= self.max",message="minIdle is above max; lower minIdle, or raise max"
// +kubebuilder:validation:XValidation:rule="!has(self.max) || !has(self.min) || !has(self.minIdle) || self.min > self.max || self.minIdle > self.max || self.min + self.minIdle <= self.max",message="min and minIdle together are above max; lower one of them, or raise max"
// +kubebuilder:validation:XValidation:rule="!has(self.configure) || self.configure != 'user_data' || !has(self.minIdle) || self.minIdle == 0",message="minIdle: with configure user_data no machine runs without a cluster; take minIdle out, or set configure to agent"
// +kubebuilder:validation:XValidation:rule="!has(self.configure) || self.configure != 'user_data' || !has(self.afterDrain) || self.afterDrain == 'delete'",message="afterDrain: with configure user_data no machine is used again; take afterDrain out, or set it to delete"
// +kubebuilder:validation:XValidation:rule="!has(self.capacityTypes) || self.capacityTypes.size() > 0 || has(self.reservations) && self.reservations.size() > 0",message="capacityTypes: an empty list lets the pool buy nothing; name at least one, or take the list out"
type DemandSettings struct {
	// min is how many machines are kept whether or not they are needed. Default: 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Min *int32 `json:"min,omitempty"`

	// max is the most machines that there may be. Default: no limit of its own.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Max *int32 `json:"max,omitempty"`

	// minIdle is how many machines without work are kept running and registered, so that the
	// next Pods do not wait for a boot. Default: 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	MinIdle *int32 `json:"minIdle,omitempty"`

	// capacityTypes are how machines may be paid for. Default: on-demand. Reserved capacity is
	// listed in reservations instead.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=3
	CapacityTypes []CapacityType `json:"capacityTypes,omitempty"`

	// configure says how a machine is told which cluster to join: by its agent once it runs
	// (agent, the default), or in its user data, which is faster for a single join and leaves no
	// machine to be used again (user_data).
	// +optional
	Configure DemandConfigure `json:"configure,omitempty"`

	// releaseHold is how long a machine without work is kept before it is deleted, at most
	// 720h. Default: 10m for on-demand, 1m for spot. Reserved and bare-metal machines are
	// always kept.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('720h')",message="releaseHold is too long; at most 720h"
	ReleaseHold *metav1.Duration `json:"releaseHold,omitempty"`

	// scaleDownDelay is how long a machine is not needed before its Pods are moved away, at
	// most 720h. Default: 1m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('720h')",message="scaleDownDelay is too long; at most 720h"
	ScaleDownDelay *metav1.Duration `json:"scaleDownDelay,omitempty"`

	// minLifetime is how long a machine is kept after it has joined, unless nothing runs on it,
	// at most 720h. Default: 5m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('720h')",message="minLifetime is too long; at most 720h"
	MinLifetime *metav1.Duration `json:"minLifetime,omitempty"`

	// joinDeadline is how long the Node of a machine may take to become ready, 30s to 720h; then
	// the machine is replaced. Default: 10m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('720h')",message="joinDeadline is too long; at most 720h"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('30s')",message="joinDeadline is too short, because no Node is ready so soon; at least 30s"
	JoinDeadline *metav1.Duration `json:"joinDeadline,omitempty"`

	// afterDrain says what becomes of a machine that has left its cluster: it waits for other
	// work (idle), or it is deleted (delete). Default: delete for spot and with configure
	// user_data, else idle.
	// +optional
	AfterDrain DemandAfterDrain `json:"afterDrain,omitempty"`

	// onDrainTimeout says what happens when the Pods of a machine that is not needed have not
	// left it in time: it stays (abort, the default), or it is taken nevertheless (force).
	// +optional
	OnDrainTimeout DemandDrainTimeout `json:"onDrainTimeout,omitempty"`

	// weight is how much one machine takes of a quota pool that counts machines. Default: 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Weight *int32 `json:"weight,omitempty"`

	// limits bound the sums over all machines. Default: none.
	// +optional
	Limits *DemandLimits `json:"limits,omitempty"`

	// reservations are capacity that is paid for whether or not it is used; it is taken first.
	// They are not divided: an entry counts on the shard of its zone.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=64
	Reservations []Reservation `json:"reservations,omitempty"`

	// disruption bounds how many machines of a shard drain at once for what is not urgent. The
	// least of the entries in force counts. Default: the servers' own bounds alone.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Disruption []DisruptionBudget `json:"disruption,omitempty"`

	// consolidation says whether machines are replaced by cheaper ones. Default: they are not.
	// +optional
	Consolidation *Consolidation `json:"consolidation,omitempty"`
}

// CapacityType is how a machine is paid for.
//
// +kubebuilder:validation:Enum=on-demand;spot;bare-metal
type CapacityType string

// Capacity types that a pool may choose.
const (
	CapacityOnDemand  CapacityType = "on-demand"
	CapacitySpot      CapacityType = "spot"
	CapacityBareMetal CapacityType = "bare-metal"
)

// DemandConfigure says how a machine is told which cluster to join.
//
// +kubebuilder:validation:Enum=agent;user_data
type DemandConfigure string

// Ways to tell a machine which cluster to join.
const (
	ConfigureAgent    DemandConfigure = "agent"
	ConfigureUserData DemandConfigure = "user_data"
)

// DemandAfterDrain says what becomes of a machine that has left its cluster.
//
// +kubebuilder:validation:Enum=idle;delete
type DemandAfterDrain string

// What becomes of a machine that has left its cluster.
const (
	AfterDrainIdle   DemandAfterDrain = "idle"
	AfterDrainDelete DemandAfterDrain = "delete"
)

// DemandDrainTimeout says what happens when Pods have not left a machine in time.
//
// +kubebuilder:validation:Enum=abort;force
type DemandDrainTimeout string

// What happens when Pods have not left a machine in time.
const (
	DrainTimeoutAbort DemandDrainTimeout = "abort"
	DrainTimeoutForce DemandDrainTimeout = "force"
)

// LimitAmount is how much there may be of something.
//
// +kubebuilder:validation:Minimum=0
// +kubebuilder:validation:Maximum=1000000000000
type LimitAmount int64

// DemandLimits bound the sums over all machines of a pool that are not gone. What is absent has no
// bound.
//
// +kubebuilder:validation:MinProperties=1
type DemandLimits struct {
	// vcpu is the most virtual processors.
	// +optional
	VCPU *LimitAmount `json:"vcpu,omitempty"`

	// memoryGiB is the most memory, in GiB.
	// +optional
	MemoryGiB *LimitAmount `json:"memoryGiB,omitempty"`

	// gpu is the most accelerators, by the name of their resource, such as nvidia.com/gpu.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 317 && k.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="gpu: a key is the name of a resource; write it as Nodes do, such as nvidia.com/gpu"
	GPU map[string]LimitAmount `json:"gpu,omitempty"`

	// hourlySpend is the most US dollars an hour, such as "12.50". Reserved machines count
	// with their real price.
	// +optional
	// +kubebuilder:validation:XValidation:rule="sign(quantity(string(self))) >= 0",message="hourlySpend is negative; write an amount from 0 on"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1G')) <= 0",message="hourlySpend is too much; at most 1000000000 US dollars an hour"
	HourlySpend *resource.Quantity `json:"hourlySpend,omitempty"`
}

// Reservation is capacity at the provider that is paid for whether or not it is used.
type Reservation struct {
	// id of it in the provider's words, such as cr-0123456789abcdef0.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[!-.0-~]+$`
	ID string `json:"id"`

	// instanceType of the machines.
	// +required
	InstanceType InstanceType `json:"instanceType"`

	// zone that it is in. Entries of other zones than a shard's have no effect on that shard.
	// Required where the pool has several shards; default: the shard's.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Zone string `json:"zone,omitempty"`

	// count of machines.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Count int32 `json:"count"`
}

// DisruptionReason is why a machine drains that could stay.
//
// +kubebuilder:validation:Enum=empty;surplus;consolidation;drift;expiry
type DisruptionReason string

// DisruptionBudget bounds how many machines of a shard drain together for some reasons. Machines
// that are unhealthy, that the provider takes back, that a user deletes or that a higher priority
// takes are never bounded.
//
// +kubebuilder:validation:XValidation:rule="has(self.schedule) == has(self.duration)",message="schedule and duration belong together: set how long the budget is in force, such as 8h, or take both out so that it always is"
type DisruptionBudget struct {
	// nodes is how many: a number such as "3", or percent of the machines that have joined,
	// rounded up, such as "10%". "0" is none at all.
	// +required
	// +kubebuilder:validation:MaxLength=10
	// +kubebuilder:validation:Pattern=`^([0-9]{1,9}|(100|[0-9]{1,2})%)$`
	Nodes string `json:"nodes"`

	// reasons that it bounds. Default: all of them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=5
	Reasons []DisruptionReason `json:"reasons,omitempty"`

	// schedule says when it comes into force: minute, hour, day of month, month, day of week,
	// in UTC, such as "0 9 * * mon-fri". Default: it always is.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[^ ]+( [^ ]+){4}$`
	Schedule string `json:"schedule,omitempty"`

	// duration is how long it then stays in force.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="duration must be above 0; write how long the budget is in force, such as 8h"
	Duration *metav1.Duration `json:"duration,omitempty"`
}

// Consolidation is the replacement of machines by cheaper ones that do the same.
type Consolidation struct {
	// enabled says whether it is done. Default: false.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// minSaving is what it has to save of the cost of what it replaces, "0" to "1". Default:
	// "0.15".
	// +optional
	// +kubebuilder:validation:XValidation:rule="sign(quantity(string(self))) >= 0 && quantity(string(self)).compareTo(quantity('1')) <= 0",message="minSaving is a share from \"0\" to \"1\", such as \"0.15\""
	MinSaving *resource.Quantity `json:"minSaving,omitempty"`
}

// InstanceRequirements choose machine types by what they are, out of those that the provider
// offers. Every one that is set has to hold.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.familiesIn) || !has(self.familiesOut) || !self.familiesIn.exists(f, f in self.familiesOut)",message="a family stands in familiesIn and in familiesOut; take it out of one of them"
type InstanceRequirements struct {
	// arch are processor architectures; the template's has to be among them. Default: the
	// template's.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:Enum=amd64;arm64
	Arch []string `json:"arch,omitempty"`

	// vcpu are virtual processors.
	// +optional
	VCPU *AmountRange `json:"vcpu,omitempty"`

	// memoryGiB is memory, in GiB.
	// +optional
	MemoryGiB *AmountRange `json:"memoryGiB,omitempty"`

	// gpu is about accelerators. Default: types that have any are left out.
	// +optional
	GPU *GPURequirements `json:"gpu,omitempty"`

	// familiesIn are families of types, one of which it has to be, such as m7g.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	FamiliesIn []string `json:"familiesIn,omitempty"`

	// familiesOut are families of types that it must not be of.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	FamiliesOut []string `json:"familiesOut,omitempty"`
}

// GPURequirements are about the accelerators of a type, of which it has at least one.
//
// +kubebuilder:validation:XValidation:rule="!has(self.count) || !has(self.count.max) || self.count.max > 0",message="count.max 0 leaves no type; take gpu out: types that have accelerators are left out then"
type GPURequirements struct {
	// names of models in the provider's words, one of which it has to be. Default: any.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Names []string `json:"names,omitempty"`

	// count of accelerators.
	// +optional
	Count *AmountRange `json:"count,omitempty"`

	// memoryGiB of all of them together, in GiB.
	// +optional
	MemoryGiB *AmountRange `json:"memoryGiB,omitempty"`
}

// AmountRange is from a number to another one, both included.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.min) || !has(self.max) || self.min <= self.max",message="min is above max; swap them"
type AmountRange struct {
	// min is the least. Default: no bound.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Min *int64 `json:"min,omitempty"`

	// max is the most. Default: no bound.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Max *int64 `json:"max,omitempty"`
}

// DemandStatus is what there is of a demand pool, or of the part of it that one shard has.
type DemandStatus struct {
	// machines that are not gone, those that are being made included.
	// +optional
	Machines int32 `json:"machines"`

	// idle machines: they run and serve no cluster.
	// +optional
	Idle int32 `json:"idle"`

	// hourlySpend is what the machines cost an hour, in US dollars; absent: not known yet.
	// +optional
	HourlySpend *resource.Quantity `json:"hourlySpend,omitempty"`

	// shortfalls are how many needs of the cluster lack something that machines of this pool
	// could be.
	// +optional
	Shortfalls int32 `json:"shortfalls"`
}
