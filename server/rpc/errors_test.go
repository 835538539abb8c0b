package rpc

import (
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"nstance.dev/server/refusal"
)

// The names are those of gRPC, so a refusal reads the same in a status, in a message
// of an agent's stream and in the log.
func TestRefusalsHaveTheCodesOfGRPC(t *testing.T) {
	for code, want := range grpcCodes {
		if string(code) != want.String() {
			t.Errorf("%s becomes %s", code, want)
		}
	}
	if got := grpcCode("Nonsense"); got != codes.Internal {
		t.Errorf("a code that does not exist becomes %s", got)
	}
	err := statusOf(refusal.New(refusal.NotFound, "NOT_FOUND", "group %q not found", "web").Because(errors.New("for the log alone")))
	if s := status.Convert(err); s.Code() != codes.NotFound || s.Message() != `group "web" not found` {
		t.Errorf("sent: %v", s)
	}
}
