// Package live is what a driver's contract needs to run in a real account, which is
// charged for it: settings that somebody has to give, and a [Budget] that bounds what is
// made and ends it. What there is besides, of machines, is none of its business.
package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
)

// Need ends the test with the names of all variables of the environment that are not
// set. The text where is the part of the documentation that explains them.
func Need(t testing.TB, where string, variables ...string) {
	t.Helper()
	for _, name := range variables {
		if os.Getenv(name) == "" {
			t.Errorf("%s is not set; see %s", name, where)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// Budget is how many machines may still be made. It is safe for concurrent use.
type Budget struct {
	variable string

	mu   sync.Mutex
	left int
	made map[identity.ID]bool
}

// NewBudget returns the budget that a variable of the environment grants.
func NewBudget(t testing.TB, variable string) *Budget {
	t.Helper()
	left, err := strconv.Atoi(os.Getenv(variable))
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return &Budget{variable: variable, left: left, made: map[identity.ID]bool{}}
}

// ErrSpent says that no more machines may be made.
var ErrSpent = errors.New("the budget is spent")

// patience is how long the end of a machine may take to ask for.
const patience = 2 * time.Minute

// Create makes a machine, which is deleted when t ends. What is over budget is refused,
// with an error of class Quota that matches [ErrSpent].
func (b *Budget) Create(ctx context.Context, t testing.TB, d driver.Driver, req driver.CreateRequest) (driver.Machine, error) {
	switch fresh, err := b.take(req.InstanceID); {
	case err != nil:
		return driver.Machine{}, driver.Fail(driver.Quota, "create", err)
	case fresh:
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
			defer cancel()
			if err := d.Delete(ctx, driver.Ref{InstanceID: req.InstanceID}); err != nil {
				t.Errorf("%s is left in the account: %v", req.InstanceID, err)
			}
		})
	}
	return d.Create(ctx, req)
}

// take pays for a machine, once for each, and reports whether it is a new one.
func (b *Budget) take(id identity.ID) (fresh bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.made[id]:
		return false, nil
	case b.left <= 0:
		return false, fmt.Errorf("%w: %s", ErrSpent, b.variable)
	}
	b.left--
	b.made[id] = true
	return true, nil
}
