package hostview

import (
	"fmt"
	"time"

	"nstance.dev/operator/hosts/rollout"
	"nstance.dev/operator/hosts/versions"
)

// RolloutPlan is what a rollout would do now.
type RolloutPlan struct {
	Configuration string `json:"configuration"`
	// Target is the number of the newest version; 0: there is none.
	Target   int32  `json:"target"`
	Strategy string `json:"strategy"`
	// MaxUnavailable of the machines that follow the configuration may be unavailable; Unavailable are,
	// those that would be begun now among them.
	MaxUnavailable int `json:"maxUnavailable"`
	Unavailable    int `json:"unavailable"`
	Following      int `json:"following"`
	// Open says whether machines may be begun now, Opens when the next window opens.
	Open  bool       `json:"open"`
	Opens *time.Time `json:"opens,omitempty"`
	// Says sums it up: a reason in one word, and a message.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Halted says why it has halted; empty: it has not.
	Halted string `json:"halted,omitempty"`
	// Machines that are outdated or begun, in the order in which their turn comes.
	Machines []RolloutTurn `json:"machines"`
}

// RolloutTurn is a machine in a rollout.
type RolloutTurn struct {
	Machine string `json:"machine"`
	// Runs is the number of the version that it runs; 0: none.
	Runs int32 `json:"runs"`
	// Stage that it is in; empty: it was not begun.
	Stage string `json:"stage,omitempty"`
	// Waits says what it waits for; empty: it would be begun now.
	Waits string `json:"waits,omitempty"`
}

// Rollout returns what follows from a decision about the rollout of a configuration; strategy says by which.
func Rollout(configuration, strategy string, in rollout.Input, d rollout.Decision) RolloutPlan {
	plan := RolloutPlan{
		Configuration: configuration, Target: in.Target.Version.Version, Strategy: strategy,
		MaxUnavailable: d.Budget, Unavailable: d.Unavailable, Following: d.Following,
		Open: d.Open, Reason: d.Rolling.Reason, Message: d.Rolling.Message, Machines: []RolloutTurn{},
	}
	if !d.Open && !d.Opens.IsZero() {
		opens := d.Opens.UTC()
		plan.Opens = &opens
	}
	if d.Halted.True {
		plan.Halted = d.Halted.Message
	}
	for _, t := range d.Order {
		plan.Machines = append(plan.Machines, RolloutTurn{Machine: t.Machine, Runs: t.Runs, Stage: string(t.Stage), Waits: t.Why})
	}
	return plan
}

// Lines are the plan for people.
func (p RolloutPlan) Lines() []Line {
	page := &page{}
	target := "none"
	if p.Target > 0 {
		target = versions.Name(p.Configuration, p.Target)
	}
	page.line(0, "rollout of %s to %s", p.Configuration, target)
	page.line(1, "strategy: %s", p.Strategy)
	page.line(1, "unavailable: %d of %d machines, and %d may be", p.Unavailable, p.Following, p.MaxUnavailable)
	switch {
	case p.Open:
		page.line(1, "windows: machines may be begun now")
	case p.Opens != nil:
		page.line(1, "windows: closed; the next one opens at %s", p.Opens.Format(time.RFC3339))
	default:
		page.line(1, "windows: closed, and none ever opens")
	}
	if p.Halted != "" {
		page.line(1, "halted: %s", p.Halted)
	}
	page.line(1, "%s: %s", p.Reason, p.Message)
	page.line(1, "machines that are outdated or begun: %d", len(p.Machines))
	for i, t := range p.Machines {
		page.line(2, "%d. %s: %s", i+1, t.Machine, t.says())
	}
	return page.lines
}

// says is what comes next for a machine.
func (t RolloutTurn) says() string {
	is := fmt.Sprintf("runs version %d", t.Runs)
	if t.Stage != "" {
		is += ", " + t.Stage
	}
	if t.Waits == "" {
		return is + "; would be begun now"
	}
	return is + "; " + t.Waits
}
