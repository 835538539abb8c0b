package tally

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"nstance.dev/protos/needs"
	"nstance.dev/protos/rollup"
)

// encoded are the bytes in which rows travel.
func encoded(t *testing.T, rows []*needs.Row) (all []byte) {
	t.Helper()
	parts, err := rollup.NewWriter("c").Write(time.Time{}, rows, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range parts {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(part)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	return all
}
