package rpc_test

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// TestF45_DeletedInstanceGoesOnWithItsCertificate: its stream ends within five
// seconds, and a new one is refused at once, whatever the certificate says.
func TestF45_DeletedInstanceGoesOnWithItsCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOptions{pipes: true})
		op := w.operatorOf("default")
		id, conn := w.registered(op)
		stream := w.connect(conn, id)
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		if _, err := op.DeleteInstance(t.Context(), &nstancev1.DeleteInstanceRequest{InstanceId: id.String()}); err != nil {
			t.Fatal(err)
		}
		var err error
		start := time.Now()
		for err == nil {
			_, err = stream.Recv()
		}
		wantCode(t, err, codes.PermissionDenied, "INSTANCE_DELETED")
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("the stream went on for %v", took)
		}
		for range 3 {
			_, err := w.connect(conn, id).Recv()
			wantCode(t, err, codes.PermissionDenied, "INSTANCE_DELETED")
			time.Sleep(time.Minute)
		}
	})
}
