package gcpfake_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"

	"nstance.dev/providers/gcp/gcpfake"
)

func (a *account) realias(name, fingerprint string, aliases ...string) (string, error) {
	nic := &computepb.NetworkInterface{Fingerprint: &fingerprint}
	for _, alias := range aliases {
		nic.AliasIpRanges = append(nic.AliasIpRanges, &computepb.AliasIpRange{IpCidrRange: &alias})
	}
	op, err := a.instances.UpdateNetworkInterface(a.t.Context(), &computepb.UpdateNetworkInterfaceInstanceRequest{
		Project: a.Project(), Zone: a.zone, Instance: name, NetworkInterface: "nic0", NetworkInterfaceResource: nic})
	if err != nil {
		return "", err
	}
	return failed(a.t, op, nil), nil
}

func (a *account) fingerprint(name string) string {
	m, err := a.get(name)
	if err != nil {
		a.t.Fatal(err)
	}
	return m.GetNetworkInterfaces()[0].GetFingerprint()
}

func (a *account) aliases(name string) string {
	m, _ := a.Machine(name)
	return strings.Join(m.Aliases, " ")
}

func TestAnAliasMovesWithFingerprints(t *testing.T) {
	within(t, gcpfake.Options{}, func(t *testing.T, a *account) {
		a.must("one")
		a.must("two")
		old := a.fingerprint("one")
		if code, err := a.realias("one", old, "10.0.0.99/32"); err != nil || code != "" || a.aliases("one") != "10.0.0.99/32" {
			t.Fatalf("%q, %v; aliases %q", code, err, a.aliases("one"))
		}
		if _, err := a.realias("one", old, "10.0.0.98/32"); said(err) != "412 conditionNotMet" || a.aliases("one") != "10.0.0.99/32" {
			t.Errorf("with an old fingerprint: %v; aliases %q", err, a.aliases("one"))
		}
		if _, err := a.realias("one", "", "10.0.0.98/32"); said(err) != "400 required" {
			t.Errorf("without a fingerprint: %v", err)
		}
		if code, err := a.realias("two", a.fingerprint("two"), "10.0.0.99/32"); err != nil || code != "IP_IN_USE_BY_ANOTHER_RESOURCE" || a.aliases("two") != "" {
			t.Errorf("what another has: %q, %v; aliases %q", code, err, a.aliases("two"))
		}
		if _, err := a.realias("two", a.fingerprint("two"), "192.0.2.1/32"); said(err) != "400 invalid" {
			t.Errorf("an address from elsewhere: %v", err)
		}
		if code, err := a.realias("one", a.fingerprint("one")); err != nil || code != "" || a.aliases("one") != "10.0.0.99/32" {
			t.Errorf("the client library leaves an empty list out, and nothing changes: %q, %v; aliases %q", code, err, a.aliases("one"))
		}
		a.patch("one", `{"fingerprint":"`+a.fingerprint("one")+`","aliasIpRanges":[]}`)
		if a.aliases("one") != "" {
			t.Errorf("after an empty list: aliases %q", a.aliases("one"))
		}
		if code, err := a.realias("two", a.fingerprint("two"), "10.0.0.99/32"); err != nil || code != "" || a.aliases("two") != "10.0.0.99/32" {
			t.Errorf("what is free again: %q, %v; aliases %q", code, err, a.aliases("two"))
		}
		a.Remove("two")
		if code, err := a.realias("one", a.fingerprint("one"), "10.0.0.99/32"); err != nil || code != "" {
			t.Errorf("what one had that is gone: %q, %v", code, err)
		}
	})
}

// patch sends an update of nic0 as it stands.
func (a *account) patch(name, body string) {
	a.t.Helper()
	req, _ := http.NewRequestWithContext(a.t.Context(), http.MethodPatch, gcpfake.Endpoint+"/compute/v1/projects/"+a.Project()+"/zones/"+a.zone+
		"/instances/"+name+"/updateNetworkInterface?networkInterface=nic0", strings.NewReader(body))
	resp, err := a.Client().Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		a.t.Fatalf("patch: %s", text)
	}
}

func TestAnAddressIsNotGivenTwice(t *testing.T) {
	within(t, gcpfake.Options{}, func(t *testing.T, a *account) {
		a.must("one", func(m *computepb.Instance) { m.NetworkInterfaces[0].NetworkIP = new("10.0.0.2") })
		a.must("two", func(m *computepb.Instance) {
			m.NetworkInterfaces[0].AliasIpRanges = []*computepb.AliasIpRange{{IpCidrRange: new("10.0.0.4/31")}}
		})
		a.must("three")
		a.must("four")
		var got []string
		for _, m := range a.Machines() {
			got = append(got, m.IP.String())
		}
		same(t, "addresses", got, []string{"10.0.0.2", "10.0.0.3", "10.0.0.6", "10.0.0.7"})
	})
}

func TestLabelsChangeWithTheirFingerprint(t *testing.T) {
	within(t, gcpfake.Options{}, func(t *testing.T, a *account) {
		a.must("knc1")
		m, err := a.get("knc1")
		if err != nil {
			t.Fatal(err)
		}
		set := func(fingerprint, value string) error {
			op, err := a.instances.SetLabels(t.Context(), &computepb.SetLabelsInstanceRequest{Project: a.Project(), Zone: a.zone, Instance: "knc1",
				InstancesSetLabelsRequestResource: &computepb.InstancesSetLabelsRequest{LabelFingerprint: &fingerprint, Labels: map[string]string{"team": value}}})
			if err != nil {
				return err
			}
			return op.Wait(t.Context())
		}
		if err := set(m.GetLabelFingerprint(), "two"); err != nil {
			t.Errorf("set: %v", err)
		}
		if err := set(m.GetLabelFingerprint(), "three"); said(err) != "412 conditionNotMet" {
			t.Errorf("with an old fingerprint: %v", err)
		}
		if got, _ := a.Machine("knc1"); got.Labels["team"] != "two" {
			t.Errorf("labels %v", got.Labels)
		}
	})
}

// An interface shows a change when its operation is done. Of two changes that were made
// from the same state the second comes too late.
func TestAnAliasShowsWhenItsOperationIsDone(t *testing.T) {
	within(t, gcpfake.Options{}, func(t *testing.T, a *account) {
		a.must("one")
		a.SetConditions(gcpfake.Conditions{Work: 10 * time.Second})
		body := `{"fingerprint":"` + a.fingerprint("one") + `","aliasIpRanges":[{"ipCidrRange":"10.0.0.%d/32"}]}`
		a.patch("one", fmt.Sprintf(body, 99))
		later(time.Second)
		a.patch("one", fmt.Sprintf(body, 98))
		for _, want := range []string{"", "10.0.0.99/32", "10.0.0.99/32"} {
			if got := a.aliases("one"); got != want {
				t.Errorf("aliases %q, want %q", got, want)
			}
			later(9500 * time.Millisecond)
		}
	})
}
