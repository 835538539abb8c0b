package aggregate

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/demand/translate"
	"nstance.dev/protos/needs"
)

// ErrSkipped is matched by the error about a request that cannot be part of a roll-up.
var ErrSkipped = errors.New("capacity request skipped")

func skipped(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrSkipped, fmt.Errorf(format, args...))
}

// shape is what a request asks for without its resources. Requests share it.
type shape struct {
	profile      needs.Profile // normal
	fingerprint  string
	group        string
	allOrNothing bool
}

// domains are those of a request that say something, sorted.
func (i Item) domains() []string {
	c := i.Spec.CoLocation
	if c == nil || c.TopologyKey == corev1.LabelHostname || len(i.Domains) == 0 {
		return nil
	}
	all := slices.Compact(slices.Sorted(slices.Values(i.Domains)))
	if len(all) > demandv1.MostValues {
		return nil // more than a requirement may name
	}
	return all
}

// shapeOf returns the shape of a request whose co-location, if there are domains, is in one of them.
func shapeOf(spec *demandv1.CapacityRequestSpec, domains []string) (*shape, error) {
	var s shape
	var err error
	p := &s.profile
	if p.Requirements, err = requirements(spec.Requirements); err != nil {
		return nil, err
	}
	if err := alternatives(p, spec.Alternatives); err != nil {
		return nil, err
	}
	for _, c := range spec.TopologySpread {
		if c.WhenUnsatisfiable != demandv1.DoNotSchedule {
			continue
		}
		if c.MaxSkew < 1 || !validText(c.TopologyKey) {
			return nil, skipped("spread over %q by %d", c.TopologyKey, c.MaxSkew)
		}
		p.Spread = append(p.Spread, needs.Spread{TopologyKey: c.TopologyKey, MaxSkew: c.MaxSkew})
	}
	if p.Tolerations, err = tolerations(spec.Tolerations); err != nil {
		return nil, err
	}
	p.Priority = spec.Priority
	p.Interruption, p.Reclamation = bucketOf(spec.InterruptionPenalty), bucketOf(spec.ReclamationPenalty)
	if c := spec.CoLocation; c != nil {
		if !validText(c.TopologyKey) {
			return nil, skipped("co-location without a key")
		}
		term := needs.CoLocation{TopologyKey: c.TopologyKey, Namespaces: c.Namespaces, Selector: translate.Selector(c.LabelSelector)}
		s.group, s.allOrNothing = term.GroupKey(), c.AllOrNothing
		if len(domains) > 0 {
			if !validArity(needs.In, domains) {
				return nil, skipped("domains %q", domains)
			}
			p.Requirements = append(p.Requirements, needs.Requirement{Key: c.TopologyKey, Operator: needs.In, Values: domains})
		}
		s.profile = p.WithSame(c.TopologyKey)
	}
	s.profile = s.profile.Normal()
	if len(s.profile.Requirements) > mostRequirements || len(s.profile.Spread) > demandv1.MostSpread {
		return nil, skipped("%d requirements and %d spread constraints", len(s.profile.Requirements), len(s.profile.Spread))
	}
	s.fingerprint = s.profile.Fingerprint()
	return &s, nil
}

func requirements(rs []demandv1.Requirement) ([]needs.Requirement, error) {
	if len(rs) > demandv1.MostRequirements {
		return nil, skipped("%d requirements", len(rs))
	}
	all := make([]needs.Requirement, len(rs))
	for i, r := range rs {
		operator, known := needs.ParseOperator(string(r.Operator))
		if !known || !validText(r.Key) || !validArity(operator, r.Values) {
			return nil, skipped("requirement %q %s %q", r.Key, r.Operator, r.Values)
		}
		all[i] = needs.Requirement{Key: r.Key, Operator: operator, Values: r.Values}
	}
	return all, nil
}

func validArity(operator needs.Operator, values []string) bool {
	for _, v := range values {
		if len(v) > longestText {
			return false
		}
	}
	switch operator {
	case needs.In, needs.NotIn:
		return len(values) > 0 && len(values) <= demandv1.MostValues
	case needs.Gt, needs.Lt:
		return len(values) == 1 && needs.ValidInteger(values[0])
	default:
		return len(values) == 0
	}
}

// alternatives adds them to the profile. Of equal ones there is one, and one alone is no
// alternative: it holds.
func alternatives(p *needs.Profile, all []demandv1.Alternative) error {
	if len(all) > demandv1.MostAlternatives {
		return skipped("%d alternatives", len(all))
	}
	var sets [][]needs.Requirement
	for _, a := range all {
		rs, err := requirements(a.Requirements)
		if err != nil {
			return err
		}
		if len(rs) == 0 {
			return nil // one that always holds: there is nothing to choose from
		}
		sets = append(sets, rs)
	}
	sets = needs.NormalAlternatives(sets)
	if len(sets) == 1 {
		p.Requirements = append(p.Requirements, sets[0]...)
		return nil
	}
	p.Alternatives = sets
	return nil
}

func tolerations(ts []demandv1.Toleration) ([]needs.Toleration, error) {
	if len(ts) > demandv1.MostTolerations {
		return nil, skipped("%d tolerations", len(ts))
	}
	var all []needs.Toleration
	for _, t := range ts {
		kept := needs.Toleration{Key: t.Key, Exists: t.Operator == "Exists"}
		if !kept.Exists {
			kept.Value = t.Value
		}
		switch t.Effect {
		case "":
		case "NoSchedule":
			kept.Effect = needs.NoSchedule
		case "NoExecute":
			kept.Effect = needs.NoExecute
		default:
			return nil, skipped("toleration of effect %q", t.Effect)
		}
		if len(kept.Key) > longestText || len(kept.Value) > longestText {
			return nil, skipped("toleration of %d bytes", len(kept.Key)+len(kept.Value))
		}
		all = append(all, kept)
	}
	return all, nil
}

// What a shard takes.
const (
	longestText      = 317 // bytes of a key or a value
	mostRequirements = 64  // of one row
)

func validText(key string) bool { return key != "" && len(key) <= longestText }

// bounds are the upper bounds of the buckets, exactly, from Zero to Highest.
var bounds = func() (all [needs.Highest + 1]resource.Quantity) {
	for b := needs.Zero; b <= needs.Highest; b++ {
		all[b] = *resource.NewScaledQuantity(b.MicroUSD(), resource.Micro)
	}
	return all
}()

// bucketOf returns the bucket of an amount of US dollars, rounded up to its bound. The amounts
// are compared exactly: a conversion to an integer would make nothing of 500m.
func bucketOf(dollars *resource.Quantity) needs.Bucket {
	if dollars == nil {
		return needs.Zero
	}
	for b := needs.Zero; b <= needs.Highest; b++ {
		if dollars.Cmp(bounds[b]) <= 0 {
			return b
		}
	}
	return needs.Pinned
}
