package document

// DemandServer is what the shard says of groups of mode demand.
type DemandServer struct {
	// Whether all is decided and nothing bought, moved or given back: what would be done is reported as what was. Default false.
	DryRun bool `json:"dry_run,omitempty"`
	// Limits that offers of several groups and tenants share, by name: what an account, a hypervisor or a stock of accelerators has.
	QuotaPools map[string]QuotaPool `json:"quota_pools,omitempty"`
	// Lists of tenants whose priorities are comparable: a need of higher priority may take machines of the others in its list. Default: each tenant is by itself, and no tenant takes machines of another.
	PriorityDomains [][]string `json:"priority_domains,omitempty"`
	// What decides which machine is taken first for a need of higher priority.
	PreemptionWeights *PreemptionWeights `json:"preemption_weights,omitempty"`
	// Prices of instance types; the first entry that matches counts, and before those that the provider tells. Capacity without a price is not bought.
	Prices []Price `json:"prices,omitempty"`
	// How probable it is that the provider takes a machine back; the first entry that matches counts, and before what the provider's own table says. Spot capacity without a probability is refused.
	Interruptions []Interruption `json:"interruptions,omitempty"`
	// Most that the machines of a tenant's demand groups may cost in this shard, in US dollars an hour, by tenant. Default: no limit.
	MaxHourlySpend map[string]USD `json:"max_hourly_spend,omitempty"`
}

// PreemptionWeights say how much each thing counts in the choice of the machine that is taken for a need of higher priority: the sum of the weighted gap of priorities, of the inverse of the seconds that drains of its class have taken, and of the inverses of both penalties in dollars. The highest sum goes first.
type PreemptionWeights struct {
	// How much lower the priority of what runs there is. Above 0. Default 1.
	PriorityGap *Fraction `json:"priority_gap,omitempty"`
	// How fast machines of its class were drained. Default 0.1.
	DrainTime *Fraction `json:"drain_time,omitempty"`
	// How low the penalty of interrupting its workload is. Default 0.1.
	InterruptionPenalty *Fraction `json:"interruption_penalty,omitempty"`
	// How low the penalty of losing this machine is. Default 0.1.
	ReclamationPenalty *Fraction `json:"reclamation_penalty,omitempty"`
}

// QuotaPool is a limit that the machines of some offers share. An offer is in the pool if all of the lists that are set have it.
type QuotaPool struct {
	// How much there is, in units of what is counted.
	Limit int64 `json:"limit" jsonschema:"minimum=0"`
	// What is counted: machines (the default; each counts as demand.weight of its group), vcpu, memory_gib or gpu.
	Counts string `json:"counts,omitempty" jsonschema:"enum=machines,enum=vcpu,enum=memory_gib,enum=gpu"`
	// Families of instance types.
	Families []string `json:"families,omitempty"`
	// Instance types.
	InstanceTypes []string `json:"instance_types,omitempty"`
	// How machines are paid for.
	CapacityTypes []string `json:"capacity_types,omitempty" jsonschema:"enum=on-demand,enum=spot,enum=reserved,enum=bare-metal"`
	// Groups, as TENANT/GROUP.
	Groups []string `json:"groups,omitempty"`
}

// What a [QuotaPool] counts.
const (
	CountsMachines = "machines"
	CountsVCPU     = "vcpu"
	CountsMemory   = "memory_gib"
	CountsGPU      = "gpu"
)

// Price is what an hour of some instance types costs: so much each, or so much for their parts.
type Price struct {
	// Instance types. Default: all.
	InstanceTypes []string `json:"instance_types,omitempty"`
	// Families of instance types. Default: all.
	Families []string `json:"families,omitempty"`
	// How the machine is paid for. Default: on-demand and bare-metal.
	CapacityTypes []string `json:"capacity_types,omitempty" jsonschema:"enum=on-demand,enum=spot,enum=reserved,enum=bare-metal"`
	// US dollars an hour; above 0.
	Hour *USD `json:"hour,omitempty"`
	// US dollars an hour for each virtual processor. What has no known size has no price by its parts.
	VCPUHour *USD `json:"vcpu_hour,omitempty"`
	// US dollars an hour for each GiB of memory.
	GiBHour *USD `json:"gib_hour,omitempty"`
	// US dollars an hour for each accelerator.
	GPUHour *USD `json:"gpu_hour,omitempty"`
}

// Interruption is how probable it is that the provider takes machines of some instance types back. Exactly one of hour and month is set.
type Interruption struct {
	// Instance types. Default: all.
	InstanceTypes []string `json:"instance_types,omitempty"`
	// Families of instance types. Default: all.
	Families []string `json:"families,omitempty"`
	// How the machine is paid for. Default: spot.
	CapacityTypes []string `json:"capacity_types,omitempty" jsonschema:"enum=on-demand,enum=spot,enum=reserved,enum=bare-metal"`
	// Probability within an hour, 0 to 1; of spot above 0.
	Hour *Fraction `json:"hour,omitempty"`
	// Probability within a month, 0 to 1; it counts as a 730th of it in an hour.
	Month *Fraction `json:"month,omitempty"`
}

// hoursOfAMonth is how a probability within a month is spread over its hours.
const hoursOfAMonth = 730

// PPM is the probability in an hour, in millionths; one that is above 0 is at least one millionth.
func (i Interruption) PPM() int64 {
	switch {
	case i.Hour != nil:
		return int64(*i.Hour)
	case i.Month != nil && *i.Month > 0:
		return max(1, (int64(*i.Month)+hoursOfAMonth/2)/hoursOfAMonth)
	}
	return 0
}
