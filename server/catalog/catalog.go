// Package catalog keeps what the machine types of a provider offer: processors,
// memory, accelerators.
//
// A [Book] holds the last listing of a provider, which is due at the beginning of a
// leadership and twice a day, every hour where somebody buys by its prices; one that failed is due again soon, and what was listed
// before stays. Until the first listing has ended nothing is known.
//
// Nothing that keeps machines at size depends on it: it tells callers what to expect of
// a machine before there is one. [Book.Run] is the loop; everything else about a Book
// waits for nothing, and gets the time as an argument.
package catalog

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"nstance.dev/server/driver"
)

// Pauses between listings; the first doubles with every failure, up to the last.
const (
	firstRetry   = 30 * time.Second
	longestRetry = time.Hour
	interval     = 12 * time.Hour
	oftenest     = time.Hour // while prices count
)

// Book is what is known of the machine types. It is safe for concurrent use.
type Book struct {
	mu       sync.Mutex
	types    map[string]driver.InstanceType
	due      time.Time // zero: at once
	failures int
}

// Due returns when the next listing is due; the zero time is at once.
func (b *Book) Due() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.due
}

// Types returns what was listed last, in no order; nil: nothing has been listed yet.
func (b *Book) Types() []driver.InstanceType {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.types == nil {
		return nil
	}
	return append(make([]driver.InstanceType, 0, len(b.types)), slices.Collect(maps.Values(b.types))...)
}

// Listed takes a listing over, and says whether it tells anything new but prices, which
// change all the time.
func (b *Book) Listed(list []driver.InstanceType, now time.Time) (news bool) {
	types := make(map[string]driver.InstanceType, len(list))
	for _, t := range list {
		types[t.Name] = t
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	news = !maps.EqualFunc(types, b.types, func(one, other driver.InstanceType) bool {
		return one.Equal(&other)
	})
	b.types, b.failures, b.due = types, 0, now.Add(interval)
	return news
}

// Failed takes note that a listing failed.
func (b *Book) Failed(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	pause := longestRetry
	if b.failures < 7 { // 30 s doubled seven times is more than an hour
		pause = min(firstRetry<<b.failures, longestRetry)
	}
	b.failures++
	b.due = now.Add(pause)
}

// Offer is what every machine of some types is sure to have; zero fields are not known.
type Offer struct {
	VCPU      int
	MemoryMiB int
	GPUs      int
	GPUModel  string // in the provider's words
}

// Offer returns the least that the types have, all of which have to be known.
// Accelerators count only where all types have the same model.
func (b *Book) Offer(names []string) Offer {
	b.mu.Lock()
	defer b.mu.Unlock()
	var least Offer
	for i, name := range names {
		t, known := b.types[name]
		if !known {
			return Offer{}
		}
		if i == 0 {
			least = Offer{VCPU: t.VCPU, MemoryMiB: t.MemoryMiB, GPUs: t.GPUs, GPUModel: t.GPUModel}
			continue
		}
		least.VCPU, least.MemoryMiB, least.GPUs = min(least.VCPU, t.VCPU), min(least.MemoryMiB, t.MemoryMiB), min(least.GPUs, t.GPUs)
		if t.GPUModel != least.GPUModel {
			least.GPUs, least.GPUModel = 0, ""
		}
	}
	return least
}

// Or fills in what is not known.
func (o Offer) Or(other Offer) Offer {
	if o.VCPU == 0 {
		o.VCPU = other.VCPU
	}
	if o.MemoryMiB == 0 {
		o.MemoryMiB = other.MemoryMiB
	}
	if o.GPUs == 0 {
		o.GPUs, o.GPUModel = other.GPUs, other.GPUModel
	}
	return o
}

// Resources are the processors and the memory by the names and in the quantities of
// Kubernetes, such as `cpu: 2` and `memory: 4096Mi`. See
// https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity.
func (o Offer) Resources() map[string]string {
	r := map[string]string{}
	if o.VCPU > 0 {
		r["cpu"] = strconv.Itoa(o.VCPU)
	}
	if o.MemoryMiB > 0 {
		r["memory"] = strconv.Itoa(o.MemoryMiB) + "Mi"
	}
	return r
}
