// Package cluster is the API server that node machines join, in memory.
//
// A [Server] keeps objects as package objects does. Each call of a [Server.Client] goes through the simulator, which
// decides what becomes of it. It issues tokens that are bound to Secrets, and knows whether one may still be used.
//
// It has one user at a time.
package cluster

import (
	"context"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/e2e/sim/objects"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// Kinds are those whose changes processes are told of, in the order in which they are handed over.
func Kinds() []string {
	return []string{
		hostsv1.KindHostMachine, hostsv1.KindMachineConfiguration, hostsv1.KindMachineConfigurationVersion, "Node", "CertificateSigningRequest", hostsv1.KindMachineOperation,
	}
}

// Server is the API server. New makes one.
type Server struct {
	*objects.Store

	issued int
	tokens map[string]token // by ID
}

// New returns a server without objects.
func New(t testing.TB) *Server {
	t.Helper()
	return &Server{Store: objects.New(t, &corev1.Node{}, &certificatesv1.CertificateSigningRequest{}), tokens: map[string]token{}}
}

// Create makes an object.
func (s *Server) Create(by string, o client.Object) error {
	return s.Write(by, o, func(client.Object) error {
		s.Identify(o)
		return s.Direct.Create(context.Background(), o)
	})
}

// Delete deletes an object, if it is the one that is meant; nil preconditions: whichever it is.
func (s *Server) Delete(by string, o client.Object, p *metav1.Preconditions) error {
	return s.Write(by, o, func(stored client.Object) error {
		if err := objects.MeantByDeletion(stored, p); err != nil {
			return err
		}
		return s.Direct.Delete(context.Background(), o)
	})
}

// Remove takes an object out as if it had never been there, whatever holds it up: a backup that was
// restored, or an etcd that was made anew.
func (s *Server) Remove(by string, o client.Object) error {
	if err := s.Change(by, o, false, func(o client.Object) { o.SetFinalizers(nil) }); client.IgnoreNotFound(err) != nil {
		return err
	}
	return client.IgnoreNotFound(s.Delete(by, o, nil))
}

// Now is the time as objects have it.
func Now() metav1.Time { return metav1.NewTime(time.Now().Truncate(time.Second)) }
