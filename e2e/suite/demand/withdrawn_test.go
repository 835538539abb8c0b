package demand_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	encoding "encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/e2e/env/box"
	"nstance.dev/e2e/env/demandoperator"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/pki"
)

// withdrawal is how soon a session ends of an operator of whom the server has heard that its record is gone.
const withdrawal = 5 * time.Second

// An operator whose registration is withdrawn loses its session, and gets no other. What its cluster needs, and the
// machines that it has, stay as they were.
func TestS13_E4_AWithdrawnOperatorLosesItsSession(t *testing.T) {
	w := start(t, "10m")
	all, machines := list(2, 2)
	w.operator.Need(all...)
	w.settled("every Pod runs", machines)
	needed, before := w.AdminList("demand", "needs"), w.operator.Seen()
	if len(needed) != len(all) {
		t.Fatalf("needs %v", needed)
	}

	records, err := filepath.Glob(w.Path("bucket", "operator", "*.json"))
	if err != nil || len(records) == 0 {
		t.Fatalf("records of operators: %v, %v", records, err)
	}
	withdrawn := map[string]string{}
	for _, path := range records {
		withdrawn[path] = read(t, path)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	w.another()
	took := w.AwaitFor(withdrawal, "the session ends", func() error {
		if s := w.operator.Seen(); !strings.Contains(s.Ended, "PermissionDenied") {
			return fmt.Errorf("%d sessions, the last ended by %q", s.Sessions, s.Ended)
		}
		return nil
	})
	ended := w.operator.Seen()
	t.Logf("%v after the record was gone: %s", took, ended.Ended)
	w.during(time.Second, "it gets no other session", func() {
		if n := w.operator.Seen().Sessions; n != before.Sessions {
			t.Fatalf("%d sessions, %d before", n, before.Sessions)
		}
	})
	if got := w.metric(`nstance_demand_needs{tenant="default"}`); got != float64(len(all)) {
		t.Errorf("%v needs are counted, want %d", got, len(all))
	}

	// Whoever reads the table again finds the rows that were there: the operator says nothing of its own.
	w.operator.Mute(true)
	for path, record := range withdrawn {
		if err := os.WriteFile(path, []byte(record), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.await("the operator is let in again", func(s demandoperator.Seen) error {
		if s.Sessions == before.Sessions {
			return errors.New(s.Ended)
		}
		return nil
	})
	if now := w.AdminList("demand", "needs"); !reflect.DeepEqual(now, needed) {
		t.Errorf("needs %v, before %v", now, needed)
	}
	after := w.operator.Seen()
	if !reflect.DeepEqual(after.Nodes, before.Nodes) {
		t.Errorf("Nodes %v, before %v", after.Nodes, before.Nodes)
	}
	if n := after.Frames["shard: reclaim_instruction"]; n > 0 {
		t.Errorf("%d machines were asked back", n)
	}
	for _, wrong := range after.Wrong {
		t.Error(wrong)
	}
}

// another calls with a certificate of the same operator that its record does not name, as after a renewal in another
// shard: the server reads the record then, and not only when it lists all of them, minutes later.
func (w *world) another() {
	w.t.Helper()
	text, err := w.Secrets().Get(w.t.Context(), pki.CAKeySecret)
	if err != nil {
		w.t.Fatal(err)
	}
	keys, err := pki.ParsePrivateKeys(text)
	if err != nil {
		w.t.Fatal(err)
	}
	settings, err := box.ClientTLS(w.Identity())
	if err != nil {
		w.t.Fatal(err)
	}
	ca, err := pem(read(w.t, filepath.Join(w.Identity(), "ca.crt")))
	if err != nil {
		w.t.Fatal(err)
	}
	leaf := *settings.Certificates[0].Leaf
	leaf.SerialNumber = new(big.Int).Add(leaf.SerialNumber, big.NewInt(-1))
	der, err := x509.CreateCertificate(nil, &x509.Certificate{
		SerialNumber: leaf.SerialNumber, Subject: leaf.Subject, URIs: leaf.URIs, NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter,
		KeyUsage: leaf.KeyUsage, ExtKeyUsage: leaf.ExtKeyUsage, ExtraExtensions: []pkix.Extension{identity.RoleExtension(identity.RoleOperator)},
		BasicConstraintsValid: true,
	}, ca, leaf.PublicKey, keys[0])
	if err != nil {
		w.t.Fatal(err)
	}
	settings.Certificates[0].Certificate = [][]byte{der}
	settings.Certificates[0].Leaf = nil
	addrs, err := w.Leader()
	if err != nil {
		w.t.Fatal(err)
	}
	conn, err := box.Dial(addrs.Operator, settings)
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	_, err = nstancev1.NewOperatorServiceClient(conn).RefreshConfig(w.t.Context(), &emptypb.Empty{})
	if status.Code(err) != codes.PermissionDenied {
		w.t.Fatalf("a certificate that no record names is answered with: %v", err)
	}
}

// pem is the certificate of a file.
func pem(text string) (*x509.Certificate, error) {
	block, _ := encoding.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("no certificate")
	}
	return x509.ParseCertificate(block.Bytes)
}
