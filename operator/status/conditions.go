package status

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxMessage is how long a message of ours gets, in bytes.
const MaxMessage = 1024

// NewCondition returns a condition that is true, false, or, for a nil holds, unknown.
func NewCondition(conditionType string, holds *bool, reason, message string) metav1.Condition {
	status := metav1.ConditionUnknown
	if holds != nil {
		status = metav1.ConditionFalse
		if *holds {
			status = metav1.ConditionTrue
		}
	}
	return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: Cut(message)}
}

// True returns a condition that holds.
func True(conditionType, reason, message string) metav1.Condition {
	holds := true
	return NewCondition(conditionType, &holds, reason, message)
}

// False returns a condition that does not hold.
func False(conditionType, reason, message string) metav1.Condition {
	holds := false
	return NewCondition(conditionType, &holds, reason, message)
}

// Unknown returns a condition of which it is not known whether it holds.
func Unknown(conditionType, reason, message string) metav1.Condition {
	return NewCondition(conditionType, nil, reason, message)
}

// Next returns the wanted conditions, sorted by type and complete: each is about that
// generation, and has become what it is now unless the old one of its type says the same.
// Old conditions that are not wanted are left out, and belong to somebody else.
func Next(old, wanted []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	next := slices.Clone(wanted)
	for i := range next {
		c := &next[i]
		c.ObservedGeneration = generation
		c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
		if was := meta.FindStatusCondition(old, c.Type); was != nil && was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
		}
	}
	sortByType(next)
	return next
}

// Select returns those of all conditions that have the types of the given ones, sorted by type:
// what Next made once of them.
func Select(all, types []metav1.Condition) []metav1.Condition {
	var of []metav1.Condition
	for _, c := range all {
		if meta.FindStatusCondition(types, c.Type) != nil {
			of = append(of, c)
		}
	}
	sortByType(of)
	return of
}

// With returns the old conditions with one of them set: what is written where all others
// are to stay as they are.
func With(old []metav1.Condition, one metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	next := slices.DeleteFunc(slices.Clone(old), func(c metav1.Condition) bool { return c.Type == one.Type })
	next = append(next, Next(old, []metav1.Condition{one}, generation, now)...)
	sortByType(next)
	return next
}

func sortByType(all []metav1.Condition) {
	slices.SortFunc(all, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
}

// Cut cuts a message that is too long, at the end of a character.
func Cut(message string) string {
	if len(message) <= MaxMessage {
		return message
	}
	cut := MaxMessage - len("…")
	for cut > 0 && message[cut]&0xC0 == 0x80 {
		cut--
	}
	return message[:cut] + "…"
}
