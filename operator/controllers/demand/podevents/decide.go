package podevents

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
)

// Patience is how long a Pod waits before anything is said of it, and Pause how long after an event nothing more is.
const (
	Patience = 30 * time.Second
	Pause    = 5 * time.Minute
)

// Reasons of the events.
const (
	MachineUpcoming      = "MachineUpcoming"
	CapacityShort        = "CapacityShort"
	CapacityRequested    = "CapacityRequested"
	CapacityNotRequested = "CapacityNotRequested"
)

// shortfallPage says what the reasons of shortfalls mean and what helps.
const shortfallPage = "docs/demand/reference.md#why-a-need-is-short"

// mostNamed is how many machines an event names.
const mostNamed = 3

// Observation is what is known of a Pod.
type Observation struct {
	Pod *corev1.Pod
	// Spec is what it asks for; nil: for nothing, up to now.
	Spec *demandv1.CapacityRequestSpec
	// Reported: the shards were told of it.
	Reported bool
	// Upcoming are machines that it fits on and that are no Nodes yet.
	Upcoming []*demandv1.UpcomingNode
	// Capacity is what the shards say of Pods like this one; nil: nothing.
	Capacity *demandv1.AvailableCapacity
	// Told is when the last event of the Pod was sent; zero: there was none.
	Told time.Time
}

// Event is one to send.
type Event struct {
	Type, Reason string
	// Action is how far the machine is, or the reason of the shortfall: an event with another one is another
	// event, and not the same one once more.
	Action  string
	Message string
}

// Decision says what to send, and when to look again. The zero value of each: nothing, never.
type Decision struct {
	Event *Event
	After time.Duration
}

// Decide says what there is to say of a Pod.
func Decide(o Observation, now time.Time) Decision {
	if !waits(o.Pod) {
		return Decision{}
	}
	if o.Spec == nil {
		return Decision{After: Pause}
	}
	if wait := early(o.Pod, o.Told, now); wait > 0 {
		return Decision{After: wait}
	}
	return Decision{Event: eventOf(o), After: Pause}
}

// early is how much too early it is to say anything of a Pod; told is when its last event was sent, zero: there was none.
func early(pod *corev1.Pod, told, now time.Time) time.Duration {
	if wait := Patience - now.Sub(pod.CreationTimestamp.Time); wait > 0 || told.IsZero() {
		return max(wait, 0)
	}
	return max(Pause-now.Sub(told), 0)
}

// waits says whether a Pod waits for a Node.
func waits(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && (pod.Status.Phase == corev1.PodPending || pod.Status.Phase == "")
}

func eventOf(o Observation) *Event {
	short := shortfall(o.Capacity)
	switch {
	case len(o.Upcoming) > 0:
		message := upcoming(o.Upcoming)
		if short != nil {
			message += fmt.Sprintf(". For all Pods like this one that is not enough: %s, see %s", missing(short), shortfallPage)
		}
		return &Event{corev1.EventTypeNormal, MachineUpcoming, string(o.Upcoming[0].Status.Phase), message}
	case short != nil:
		return &Event{corev1.EventTypeWarning, CapacityShort, short.Reason, fmt.Sprintf(
			"no machine can be had for Pods like this one: %s. It is tried again by itself; %s says what helps", missing(short), shortfallPage)}
	case o.Reported:
		return &Event{corev1.EventTypeNormal, CapacityRequested, "Request",
			"the shards were told what the Pod asks for; no machine is on its way for it, and none is missing: it is scheduled where there is room, or a machine is bought when there is none"}
	default:
		return &Event{corev1.EventTypeWarning, CapacityNotRequested, "Request",
			"the shards were not told yet what the Pod asks for; no machine is bought for it before the operator has a session with a shard, see its log"}
	}
}

func shortfall(c *demandv1.AvailableCapacity) *demandv1.Shortfall {
	if c == nil {
		return nil
	}
	return c.Status.Shortfall
}

// upcoming names the machines that are furthest on their way.
func upcoming(all []*demandv1.UpcomingNode) string {
	var named []string
	for _, n := range all[:min(len(all), mostNamed)] {
		text := n.Name
		if what := strings.TrimSpace(n.Spec.CapacityType + " " + n.Spec.InstanceType); what != "" {
			text += ", " + what
		}
		if n.Spec.Zone != "" {
			text += " in " + n.Spec.Zone
		}
		named = append(named, fmt.Sprintf("%s (%s)", text, n.Status.Phase))
	}
	more := ""
	if n := len(all) - len(named); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("upcoming for Pods like this one: %s%s; the Pod is scheduled when there is room on a Node that is ready", strings.Join(named, "; "), more)
}

// missing says why capacity is short, and how much there is too little.
func missing(s *demandv1.Shortfall) string {
	text := s.Reason
	if text == "" {
		text = "no reason is known"
	}
	var amounts []string
	for _, name := range slices.Sorted(maps.Keys(s.Deficit)) {
		q := s.Deficit[name]
		amounts = append(amounts, fmt.Sprintf("%s %s", name, q.String()))
	}
	if len(amounts) > 0 {
		text += ", missing " + strings.Join(amounts, ", ")
	}
	if s.Since != nil {
		text += ", since " + s.Since.UTC().Format(time.RFC3339)
	}
	return text
}
