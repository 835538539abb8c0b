package translate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Reason says in one word what could not be expressed or read.
type Reason string

// Reasons, in the order in which they are named.
const (
	MultipleAffinityTerms    Reason = "MultipleAffinityTerms"    // more terms of node affinity than are carried
	UnsupportedOperator      Reason = "UnsupportedOperator"      // Gt or Lt, without alternatives; a toleration that compares numbers
	MatchFields              Reason = "MatchFields"              // a term that chooses a Node by its name
	InvalidRequirement       Reason = "InvalidRequirement"       // a term that no Node can match
	MultiplePodAffinityTerms Reason = "MultiplePodAffinityTerms" // more than one required term of affinity to Pods
	VolumeTopology           Reason = "VolumeTopology"           // a volume is bound to something else than a zone or region
	ResourceClaims           Reason = "ResourceClaims"           // dynamic resource claims
	TooManyRequirements      Reason = "TooManyRequirements"      // more requirements or values than a request takes
	TooManyConstraints       Reason = "TooManyConstraints"       // more spread constraints or tolerations than a request takes
	TooManyResources         Reason = "TooManyResources"         // more resources than a request takes
	InvalidPenalty           Reason = "InvalidPenalty"           // an annotation is no amount of dollars; it counts as absent
)

var order = []Reason{
	MultipleAffinityTerms, UnsupportedOperator, MatchFields, InvalidRequirement, MultiplePodAffinityTerms, VolumeTopology,
	ResourceClaims, TooManyRequirements, TooManyConstraints, TooManyResources, InvalidPenalty,
}

// Untranslated says whether a part of the Pod is missing from its request, so that condition
// Translated is False. An annotation that cannot be read is told to its author instead.
func (r Reason) Untranslated() bool { return r != InvalidPenalty }

// Warning is one thing that could not be expressed or read.
type Warning struct {
	Reason  Reason
	Message string // for people: what, and what is done instead
}

// Translated returns the status, reason and message of condition Translated: false with the
// first reason and all messages if a part of the Pod is missing from its request.
func Translated(all []Warning) (translated bool, reason, message string) {
	var messages []string
	for _, w := range all {
		if !w.Reason.Untranslated() {
			continue
		}
		if reason == "" {
			reason = string(w.Reason)
		}
		messages = append(messages, w.Message)
	}
	if reason == "" {
		return true, "Translated", ""
	}
	return false, reason, strings.Join(messages, "; ")
}

// warnings collects them.
type warnings []Warning

func (w *warnings) add(reason Reason, message string) {
	added := Warning{reason, message}
	if !slices.Contains(*w, added) {
		*w = append(*w, added)
	}
}

func (w *warnings) addf(reason Reason, format string, args ...any) {
	w.add(reason, fmt.Sprintf(format, args...))
}

// sorted returns them in the order of their reasons.
func (w *warnings) sorted() []Warning {
	slices.SortStableFunc(*w, func(a, b Warning) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Reason), slices.Index(order, b.Reason)), cmp.Compare(a.Message, b.Message))
	})
	return *w
}
