package configsource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"nstance.dev/server/driver"
)

// typeBook remembers what the provider says of instance types, so that the checks of
// a configuration, which ask nobody, know it too. A type that a check asks for and
// nothing is known of becomes a question; [typeBook.learn] has the provider answer it.
// It is safe for concurrent use.
type typeBook struct {
	log *slog.Logger

	mu        sync.Mutex
	validator driver.TypeValidator // nil: nobody can be asked (yet)
	timeout   time.Duration        // of the questions that are asked at once
	verdicts  map[machineType]driver.TypeVerdict
	open      map[machineType]bool // asked for, and not answered
}

// machineType is a type, and the architecture that it is to have.
type machineType struct{ name, arch string }

func (t machineType) archMismatch() error {
	return fmt.Errorf("machines of type %q are not %s", t.name, t.arch)
}

// Bounds of what is remembered: callers of the API name types too.
const (
	maxTypes = 10_000
	maxOpen  = 200
)

func newTypeBook(log *slog.Logger) *typeBook {
	return &typeBook{log: log, verdicts: map[machineType]driver.TypeVerdict{}, open: map[machineType]bool{}}
}

// ask makes v the one who answers.
func (b *typeBook) ask(v driver.TypeValidator, timeout time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.validator, b.timeout = v, timeout
}

// rules adds what is known to the provider's own rules, which may be nil and come
// first.
func (b *typeBook) rules(of *driver.Rules) *driver.Rules {
	all := driver.Rules{}
	if of != nil {
		all = *of
	}
	own := all.CheckInstanceType
	all.CheckInstanceType = func(instanceType, arch string) error {
		var err error
		if own != nil {
			err = own(instanceType, arch)
		}
		if err != nil && !errors.Is(err, driver.ErrUnknownType) {
			return err
		}
		return b.check(machineType{instanceType, arch}, err)
	}
	return &all
}

// check is what the provider says of a type; otherwise, if nothing is known of it.
func (b *typeBook) check(t machineType, otherwise error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.verdicts[t] {
	case driver.TypeOK:
		return nil
	case driver.TypeMismatch:
		return t.archMismatch()
	case driver.TypeUnknown:
		return driver.ErrUnknownType
	}
	if len(b.open) < maxOpen && len(b.verdicts) < maxTypes {
		b.open[t] = true
	}
	return otherwise
}

// archMismatch is what the provider has said against a type; nil: nothing. It asks nothing.
func (b *typeBook) archMismatch(instanceType, arch string) error {
	t := machineType{instanceType, arch}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.verdicts[t] != driver.TypeMismatch {
		return nil
	}
	return t.archMismatch()
}

// learn has the provider answer the open questions, and reports whether it has said
// anything. What it does not answer stays open.
func (b *typeBook) learn(ctx context.Context) (news bool) {
	b.mu.Lock()
	validator, timeout := b.validator, b.timeout
	var open []machineType
	for t := range b.open {
		open = append(open, t)
	}
	b.mu.Unlock()
	if validator == nil {
		return false
	}
	slices.SortFunc(open, func(a, c machineType) int {
		return cmp.Or(cmp.Compare(a.name, c.name), cmp.Compare(a.arch, c.arch))
	})
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for _, t := range open {
		verdict, err := validator.ValidateInstanceType(ctx, t.name, t.arch)
		if err != nil {
			b.log.WarnContext(ctx, "instance types not checked", "type", t.name, "class", driver.ClassOf(err), "error", err)
			return news // the others would wait for the same
		}
		b.mu.Lock()
		b.verdicts[t] = verdict
		delete(b.open, t)
		b.mu.Unlock()
		news = true
	}
	return news
}
