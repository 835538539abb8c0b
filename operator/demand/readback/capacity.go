package readback

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

// Said is the last that one shard said of one profile.
type Said struct {
	Shard  string
	Update *demandpb.AvailableCapacityUpdate
	At     time.Time // when it was heard
}

// CapacityChange is what becomes of an AvailableCapacity. The zero value of each field: nothing.
type CapacityChange struct {
	Reason string // for people
	// Create is the object to make; its status is what it gets right after.
	Create *demandv1.AvailableCapacity
	// Spec and Status replace those of the object.
	Spec   *demandv1.AvailableCapacitySpec
	Status *demandv1.AvailableCapacityStatus
	// Delete: the object goes.
	Delete bool
}

// CapacityName returns the name of the AvailableCapacity of a profile.
func CapacityName(fingerprint string) string {
	sum := sha256.Sum256([]byte(fingerprint))
	return "ac-" + hex.EncodeToString(sum[:])
}

// Available says what becomes of the AvailableCapacity of a profile, nil if there is none. All
// said is of that profile, once for each shard; what a shard has withdrawn does not count, and
// once nothing is left the object goes.
//
// The object is the sum of the shards: the best confidence, all machines, the least cost. It
// falls short only where each shard does, of all that they miss together. That something was
// said again at another time is no reason to write it.
func Available(have *demandv1.AvailableCapacity, fingerprint string, said []Said) CapacityChange {
	said = slices.DeleteFunc(slices.Clone(said), func(s Said) bool { return s.Update.GetWithdrawn() })
	slices.SortFunc(said, func(a, b Said) int { return cmp.Compare(a.Shard, b.Shard) })
	if len(said) == 0 {
		return CapacityChange{Delete: have != nil, Reason: "no shard speaks of the profile any longer"}
	}
	spec, status := sum(fingerprint, said)
	if have == nil {
		return CapacityChange{Reason: "a shard speaks of the profile", Create: &demandv1.AvailableCapacity{
			ObjectMeta: metav1.ObjectMeta{Name: CapacityName(fingerprint)}, Spec: spec, Status: status,
		}}
	}
	var c CapacityChange
	if !equality.Semantic.DeepEqual(undatedSpec(have.Spec), undatedSpec(spec)) {
		c.Spec, c.Reason = &spec, "another offer"
	}
	if !equality.Semantic.DeepEqual(undated(have.Status), undated(status)) {
		c.Status, c.Reason = &status, "what the shards have or miss has changed"
	}
	return c
}

// sum adds up what shards have said; it is at least one.
func sum(fingerprint string, said []Said) (demandv1.AvailableCapacitySpec, demandv1.AvailableCapacityStatus) {
	best, cheapest := demandpb.Confidence_CONFIDENCE_NONE, int64(math.MaxInt64)
	var count int64
	var latest time.Time
	var status demandv1.AvailableCapacityStatus
	short := true
	for _, s := range said {
		u := s.Update
		best = max(best, u.GetConfidence())
		if u.GetConfidence() > demandpb.Confidence_CONFIDENCE_NONE {
			cheapest = min(cheapest, u.GetCostMicroUsdPerHour())
		}
		if count += u.GetAvailableCount(); count < 0 {
			count = math.MaxInt64
		}
		if s.At.After(latest) {
			latest = s.At
		}
		part := demandv1.ShardCapacity{Shard: s.Shard, CapacityHint: hint(u.GetConfidence(), u.GetAvailableCount(), u.GetCostMicroUsdPerHour(), s.At), Shortfall: shortfall(u)}
		status.Shards = append(status.Shards, part)
		short = short && part.Shortfall != nil
	}
	if short {
		status.Shortfall = together(status.Shards)
	}
	first := said[0].Update
	spec := demandv1.AvailableCapacitySpec{
		ProfileFingerprint: fingerprint, Requirements: profileRequirements(first.GetRequirements()),
		Alternatives: alternatives(first.GetAlternatives()), Tolerations: tolerations(first.GetTolerations()),
		CapacityHint: hint(best, count, cheapest, latest),
	}
	return spec, status
}

func hint(c demandpb.Confidence, count, cost int64, at time.Time) demandv1.CapacityHint {
	h := demandv1.CapacityHint{Confidence: demandv1.ConfidenceNone, AvailableCount: count, ObservedAt: &metav1.Time{Time: at}}
	switch c {
	case demandpb.Confidence_CONFIDENCE_HIGH:
		h.Confidence = demandv1.ConfidenceHigh
	case demandpb.Confidence_CONFIDENCE_MEDIUM:
		h.Confidence = demandv1.ConfidenceMedium
	case demandpb.Confidence_CONFIDENCE_LOW:
		h.Confidence = demandv1.ConfidenceLow
	default:
		return h // nothing has no price
	}
	h.CostPerHour = dollars(cost)
	return h
}

// dollars writes millionths as a decimal number without trailing zeros; less than 0 is 0.
func dollars(micro int64) string {
	const million = 1_000_000
	micro = max(micro, 0)
	if micro%million == 0 {
		return fmt.Sprint(micro / million)
	}
	return strings.TrimRight(fmt.Sprintf("%d.%06d", micro/million, micro%million), "0")
}

func shortfall(u *demandpb.AvailableCapacityUpdate) *demandv1.Shortfall {
	if len(u.GetShortfall()) == 0 && u.GetShortfallReason() == "" {
		return nil
	}
	s := &demandv1.Shortfall{Deficit: amounts(u.GetShortfall()), Reason: u.GetShortfallReason()}
	if ms := u.GetShortfallSinceUnixMs(); ms > 0 {
		s.Since = &metav1.Time{Time: time.UnixMilli(ms).Truncate(time.Second)} // as an object keeps it
	}
	return s
}

// together is what all shards miss: since the first of them missed something, and for the
// reason of that one.
func together(all []demandv1.ShardCapacity) *demandv1.Shortfall {
	sum := all[0].Shortfall.DeepCopy()
	for _, part := range all[1:] {
		s := part.Shortfall
		if s.Since != nil && (sum.Since == nil || s.Since.Before(sum.Since)) {
			sum.Since, sum.Reason = s.Since.DeepCopy(), s.Reason
		}
		for name, more := range s.Deficit {
			if sum.Deficit == nil {
				sum.Deficit = s.Deficit.DeepCopy()
				break
			}
			q := sum.Deficit[name].DeepCopy()
			q.Add(more)
			sum.Deficit[name] = q
		}
	}
	return sum
}

// undatedSpec and undated leave out when something was heard. A spec is a copy already.
func undatedSpec(s demandv1.AvailableCapacitySpec) demandv1.AvailableCapacitySpec {
	s.ObservedAt = nil
	return s
}

func undated(s demandv1.AvailableCapacityStatus) demandv1.AvailableCapacityStatus {
	s.Shards = slices.Clone(s.Shards)
	for i := range s.Shards {
		s.Shards[i].ObservedAt = nil
	}
	return s
}

// operators are those of the wire in the words of Kubernetes.
var operators = map[demandpb.Operator]string{
	demandpb.Operator_OPERATOR_IN: "In", demandpb.Operator_OPERATOR_NOT_IN: "NotIn",
	demandpb.Operator_OPERATOR_EXISTS: "Exists", demandpb.Operator_OPERATOR_DOES_NOT_EXIST: "DoesNotExist",
	demandpb.Operator_OPERATOR_SAME: "Same", demandpb.Operator_OPERATOR_GT: "Gt", demandpb.Operator_OPERATOR_LT: "Lt",
}

func profileRequirements(all []*demandpb.NodeSelectorRequirement) []demandv1.ProfileRequirement {
	var out []demandv1.ProfileRequirement
	for _, r := range all {
		out = append(out, demandv1.ProfileRequirement{Key: r.GetKey(), Operator: operators[r.GetOperator()], Values: slices.Clone(r.GetValues())})
	}
	return out
}

func alternatives(all []*demandpb.Alternative) []demandv1.Alternative {
	var out []demandv1.Alternative
	for _, a := range all {
		var terms []demandv1.Requirement
		for _, r := range a.GetRequirements() {
			terms = append(terms, demandv1.Requirement{Key: r.GetKey(), Operator: demandv1.Operator(operators[r.GetOperator()]), Values: slices.Clone(r.GetValues())})
		}
		out = append(out, demandv1.Alternative{Requirements: terms})
	}
	return out
}

func tolerations(all []*demandpb.Toleration) []demandv1.Toleration {
	var out []demandv1.Toleration
	for _, t := range all {
		operator := demandv1.TolerationOperator("Equal")
		if t.GetExists() {
			operator = "Exists"
		}
		out = append(out, demandv1.Toleration{Key: t.GetKey(), Operator: operator, Value: t.GetValue(), Effect: demandv1.TolerationEffect(effect(t.GetEffect()))})
	}
	return out
}
