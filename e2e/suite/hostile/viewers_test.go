package hostile

import (
	"crypto/ed25519"
	"crypto/tls"
	"strings"
	"testing"

	"nstance.dev/e2e/env/box"
	"nstance.dev/protos/identity"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/objectstore/backends"
	"nstance.dev/server/operatorauth"
	"nstance.dev/server/pki"
)

const readOnly = "PermissionDenied READ_ONLY"

// viewers are rows about who may look and change nothing.
func viewers() (rows []attempt) {
	changes := func(method string, stream bool) {
		rows = append(rows, attempt{"F43", "a viewer calls " + method, readOnly, func(t *testing.T, w *world) string {
			conn := w.dial(t, w.addrs.Operator, w.as(w.viewer(t, identity.DefaultTenant)))
			return outline(said(invoke(call(t), conn, method, stream)))
		}})
	}
	for _, m := range nstancev1.OperatorService_ServiceDesc.Methods {
		switch name := m.MethodName; {
		case strings.HasPrefix(name, "Get"), strings.HasPrefix(name, "List"), name == "Explain", name == "PlanConfig", name == "CheckGroup", name == "RenewCertificate":
		default:
			changes("/"+nstancev1.OperatorService_ServiceDesc.ServiceName+"/"+name, false)
		}
	}
	changes(demandpb.ShardService_Session_FullMethodName, true)
	return append(rows,
		attempt{"F43", "a viewer coordinates drains", readOnly, func(t *testing.T, w *world) string {
			conn := w.dial(t, w.addrs.Operator, w.as(w.viewer(t, identity.DefaultTenant)))
			stream, err := nstancev1.NewOperatorServiceClient(conn).WatchInstances(call(t), &nstancev1.WatchInstancesRequest{CoordinatesDrains: true})
			if err == nil {
				_, err = stream.Recv()
			}
			return outline(said(err))
		}},
		attempt{"F43", "a viewer renews itself to an operator", "viewer", func(t *testing.T, w *world) string {
			w.leadsCluster(t)
			conn := w.dial(t, w.addrs.Operator, w.as(w.viewer(t, identity.DefaultTenant)))
			public, err := pki.EncodePublicKey(w.newKey(t).Public().(ed25519.PublicKey))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := nstancev1.NewOperatorServiceClient(conn).RenewCertificate(call(t), &nstancev1.RenewCertificateRequest{PublicKeyPem: public})
			if err != nil {
				return said(err)
			}
			certs, err := pki.ParseCertificates(resp.ClientCertificatePem)
			if err != nil {
				t.Fatal(err)
			}
			who, err := identity.PeerFromCertificate(certs[0])
			if err != nil {
				t.Fatal(err)
			}
			return string(who.Role)
		}},
		attempt{"F43", "a viewer is made an operator by the authority's key", "PermissionDenied UNKNOWN_OPERATOR", func(t *testing.T, w *world) string {
			f := w.twinOf(t, w.viewer(t, identity.DefaultTenant))
			for i, e := range f.ExtraExtensions {
				if e.Id.Equal(identity.RoleOID) {
					f.ExtraExtensions[i] = identity.RoleExtension(identity.RoleOperator)
				}
			}
			return outline(w.present(t, asOperator, w.as(f.sign(t)), ""))
		}},
	)
}

// viewer enrols a viewer of a tenant.
func (w *world) viewer(t *testing.T, tenant string) tls.Certificate {
	t.Helper()
	store, err := backends.Open(t.Context(), backends.Location{Kind: backends.File, Bucket: w.Path("bucket")})
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.EnsureCA(t.Context(), w.Secrets(), store, box.Cluster, pki.CATemplate{}, pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	key := w.newKey(t)
	_, cert, err := operatorauth.Enrol(t.Context(), store, pki.NewAuthority(ca, box.Cluster, nil, nil), operatorauth.EnrolRequest{
		Tenant: tenant, Role: identity.RoleViewer, Key: key.Public().(ed25519.PublicKey),
	})
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{cert.Leaf.Raw}, PrivateKey: key, Leaf: cert.Leaf}
}

func (w *world) newKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	key, err := pki.NewPrivateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
