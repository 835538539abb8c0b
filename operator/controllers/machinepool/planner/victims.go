package planner

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"
)

// SickAfter is how long a Node has to be not ready before its instance is preferred as a
// victim.
const SickAfter = 5 * time.Minute

// VictimPolicy orders healthy instances without a deletion request.
type VictimPolicy string

// The policies. The empty one, and any other word, is Oldest.
const (
	Oldest VictimPolicy = "Oldest"
	Newest VictimPolicy = "Newest"
	// Random is an order that has nothing to do with age, and is the same each time.
	Random VictimPolicy = "Random"
)

// Candidate is an instance of a pool, with what Kubernetes knows of it.
type Candidate struct {
	ID    string
	Shard string
	// Created is when the server made it; its id carries that.
	Created time.Time
	// DeleteAnnotation is the value of the annotation by which somebody requested its
	// deletion. Requested says that there is one: its value may be empty.
	DeleteAnnotation string
	Requested        bool
	// Deleting: the server has condemned it, its Machine is being deleted, or it retires
	// already. It is not chosen again, and a request for its deletion means nothing any more.
	Deleting bool
	// Machine: the provider has a machine for it.
	Machine bool
	// Joined: it has, or has had, a Node.
	Joined bool
	// Repaving: its host builds its node again, so that its Node is away for some minutes. It goes
	// last, unless its deletion was requested.
	Repaving bool
	// OnHold: something is done to it that would be lost, such as a reboot, or it is switched off on
	// purpose. It goes last too.
	OnHold bool
	// NotReadySince is since when its Node is not ready; zero: it is ready, or there is
	// none.
	NotReadySince time.Time
}

// Victim is an instance that is to go.
type Victim struct {
	ID string
	// Why it was chosen, to people.
	Why string
}

// rank is how dispensable an instance is: the lowest goes first.
type rank int

const (
	rankRequested rank = iota
	rankNoMachine
	rankNeverJoined
	rankSick
	rankHealthy
	rankRepaving
	rankOnHold
)

func (c Candidate) rank(now time.Time) rank {
	switch {
	case c.Requested:
		return rankRequested
	case c.OnHold && !c.Repaving:
		return rankOnHold
	case c.Repaving:
		return rankRepaving
	case !c.Machine:
		return rankNoMachine
	case !c.Joined:
		return rankNeverJoined
	case !c.NotReadySince.IsZero() && now.Sub(c.NotReadySince) > SickAfter:
		return rankSick
	default:
		return rankHealthy
	}
}

// Choice is how to choose where no deletion was requested.
type Choice struct {
	Policy VictimPolicy
	// Seed makes the random order of one pool differ from that of another, and from
	// that of yesterday's pool of this name: a UID.
	Seed string
}

// order compares two candidates: negative if a goes before b.
func (ch Choice) order(a, b Candidate, now time.Time) int {
	if byRank := cmp.Compare(a.rank(now), b.rank(now)); byRank != 0 {
		return byRank
	}
	if a.Requested {
		return compareRequests(a, b)
	}
	byAge := cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	switch ch.Policy {
	case Newest:
		return -byAge
	case Random:
		return cmp.Or(cmp.Compare(ch.lot(a), ch.lot(b)), byAge)
	default:
		return byAge
	}
}

// lot is the place of an instance in the random order.
func (ch Choice) lot(c Candidate) string {
	sum := sha256.Sum256([]byte(ch.Seed + "\n" + c.ID))
	return hex.EncodeToString(sum[:])
}

// pick returns the n first of the candidates, or all.
func (ch Choice) pick(candidates []Candidate, n int, now time.Time) []Victim {
	sorted := slices.SortedFunc(slices.Values(candidates), func(a, b Candidate) int { return ch.order(a, b, now) })
	var chosen []Victim
	for _, c := range sorted[:min(n, len(sorted))] {
		chosen = append(chosen, Victim{c.ID, ch.why(c, now)})
	}
	return chosen
}

func (ch Choice) why(c Candidate, now time.Time) string {
	switch c.rank(now) {
	case rankRequested:
		return "named by an annotation on its machine"
	case rankNoMachine:
		return "it has no machine yet"
	case rankNeverJoined:
		return "its machine never became a node"
	case rankRepaving:
		return "its host is being repaved, and all others go before it"
	case rankOnHold:
		return "it is on hold, and all others go before it"
	case rankSick:
		return fmt.Sprintf("its node has not been ready for %v", now.Sub(c.NotReadySince).Round(time.Second))
	}
	switch ch.Policy {
	case Newest:
		return "newest in " + c.Shard
	case Random:
		return "chosen at random in " + c.Shard
	default:
		return "oldest in " + c.Shard
	}
}
