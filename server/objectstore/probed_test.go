package objectstore_test

import (
	"errors"
	"testing"

	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/objectstore/storetest"
)

func TestProbedContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) objectstore.Store {
		return objectstore.NewProbed(memory.New(memory.Options{}))
	})
}

func TestProbedContractWhereDeletesAreUnconditional(t *testing.T) {
	storetest.Run(t, func(*testing.T) objectstore.Store {
		return careless{Store: memory.New(memory.Options{}), deletes: true}
	}, storetest.ConditionalDeletes)
}

func TestF9_ProbedRefusesWhatItsTestRefuses(t *testing.T) {
	s := objectstore.NewProbed(careless{Store: memory.New(memory.Options{}), puts: true, deletes: true})
	if _, err := s.SelfTest(t.Context(), "probe"); !errors.Is(err, objectstore.ErrConditionsIgnored) {
		t.Errorf("self-test: %v", err)
	}
}

// Where a store heeds its conditions a deletion costs one request.
func TestProbedReadsOnlyWhereItMust(t *testing.T) {
	below := memory.New(memory.Options{})
	s := objectstore.NewProbed(below)
	if _, err := s.SelfTest(t.Context(), "probe"); err != nil {
		t.Fatal(err)
	}
	etag, err := s.PutIfAbsent(t.Context(), "k", nil)
	if err != nil {
		t.Fatal(err)
	}
	before := below.Calls()
	if err := s.DeleteIfMatch(t.Context(), "k", etag); err != nil || below.Calls() != before+1 {
		t.Errorf("%d calls, %v", below.Calls()-before, err)
	}
}
