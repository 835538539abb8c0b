// Package pavertest makes what tests of a paver tell it: assignments that can be built, and
// credentials.
package pavertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Hash is the hash of the content that a hexadecimal digit names.
func Hash(digit string) string { return "sha256:" + strings.Repeat(digit, 64) }

// Assignment is one of an archive, whose content is named by one hexadecimal digit.
func Assignment(epoch int64, mode nstancev1.MachineMode, digit string) *nstancev1.MachineAssignment {
	return &nstancev1.MachineAssignment{
		MachineName: "m1", MachineUid: "uid-1", NodeName: "n1", Epoch: epoch, Mode: mode,
		Configuration: &nstancev1.MachineConfigurationVersion{Name: "gpu", Version: int32(epoch), Uid: "c", Hash: Hash(digit)},
		ApiServer:     &nstancev1.MachineApiServer{Endpoint: "https://127.0.0.1:6443", CaBundle: bundle()},
		Template: &nstancev1.MachineTemplate{
			Image: &nstancev1.MachineImage{Source: &nstancev1.MachineImage_Archive{Archive: &nstancev1.MachineArchive{
				Url: "https://images.example.com/" + digit + ".tar", Sha256: Hash(digit),
			}}},
			Kubernetes: &nstancev1.MachineKubernetes{Version: "v1.36.3", ClusterDomain: "cluster.local"},
			Machine:    &nstancev1.MachineSettings{Network: nstancev1.MachineNetwork_MACHINE_NETWORK_HOST},
		},
	}
}

// Credential is one for an epoch that lasts until a moment.
func Credential(epoch int64, sequence int32, token string, until time.Time) *nstancev1.MachineCredential {
	return &nstancev1.MachineCredential{Epoch: epoch, Sequence: sequence, Token: token, ExpiresAt: timestamppb.New(until)}
}

// Prebuild has the content prepared that a digit names; the whole slot, or what it is built from.
func Prebuild(digit string, slot bool) *nstancev1.MachinePrebuild {
	a := Assignment(0, nstancev1.MachineMode_MACHINE_MODE_PREBUILD, digit)
	a.Configuration.Version = 7
	p := &nstancev1.MachinePrebuild{Assignment: a, Scope: nstancev1.MachinePrebuildScope_MACHINE_PREBUILD_SCOPE_IMAGES}
	if slot {
		p.Scope = nstancev1.MachinePrebuildScope_MACHINE_PREBUILD_SCOPE_SLOT
	}
	return p
}

// Work wraps an assignment, a credential, a confirmation, an operation or its cancellation, or a prebuild.
func Work(message any) *nstancev1.MachineWork {
	switch m := message.(type) {
	case *nstancev1.MachineAssignment:
		return &nstancev1.MachineWork{Work: &nstancev1.MachineWork_Assignment{Assignment: m}}
	case *nstancev1.MachineCredential:
		return &nstancev1.MachineWork{Work: &nstancev1.MachineWork_CredentialUpdate{CredentialUpdate: m}}
	case *nstancev1.NodeConfirmed:
		return &nstancev1.MachineWork{Work: &nstancev1.MachineWork_NodeConfirmed{NodeConfirmed: m}}
	case *nstancev1.MachineOrder:
		return &nstancev1.MachineWork{Work: &nstancev1.MachineWork_Operation{Operation: m}}
	case *nstancev1.MachineOrderCancel:
		return &nstancev1.MachineWork{Work: &nstancev1.MachineWork_CancelOperation{CancelOperation: m}}
	case *nstancev1.MachinePrebuild:
		return &nstancev1.MachineWork{Work: &nstancev1.MachineWork_Prebuild{Prebuild: m}}
	}
	panic(fmt.Sprintf("%T is no work", message))
}

// bundle is a certificate in PEM.
var bundle = sync.OnceValue(func() string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
})
