package instances

import (
	"encoding/json"
	"strings"
	"testing"

	compute "cloud.google.com/go/compute/apiv1/computepb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"

	"nstance.dev/providers/gcp/rules"
	"nstance.dev/server/driver"
)

// instanceFrom reads an instance as the API's reference writes it.
func instanceFrom(t *testing.T, text string) *compute.Instance {
	t.Helper()
	inst := new(compute.Instance)
	if err := protojson.Unmarshal([]byte(text), inst); err != nil {
		t.Fatal(err)
	}
	return inst
}

// bare is what a request becomes that has an image and nothing else.
const bare = `{
	"name": "knc068a3cp3thz5z2mv1gejwftabc",
	"machineType": "projects/nstance-fake/zones/europe-west1-b/machineTypes/e2-medium",
	"disks": [{"boot": true, "autoDelete": true, "initializeParams": {"sourceImage": "projects/debian-cloud/global/images/family/debian-12"}}],
	"networkInterfaces": [{"subnetwork": "projects/nstance-fake/regions/europe-west1/subnetworks/nstance"}],
	"scheduling": {},
	"labels": {
		"nstance-managed": "true", "nstance-cluster-id": "suite", "nstance-shard": "one",
		"nstance-instance-id": "knc068a3cp3thz5z2mv1gejwftabc", "nstance-tenant": "default", "nstance-group": "web",
		"nstance-template": "worker-1", "nstance-kind": "knc", "nstance-created-at": "1720699765"
	}
}`

func TestInstance(t *testing.T) {
	for name, tt := range map[string]struct {
		args   string // beside the image
		change func(*driver.CreateRequest)
		want   func(*compute.Instance)
	}{
		"nothing but an image": {},
		"boot disk": {args: `{"BootDisk": {"SizeGb": 50, "Type": "pd-ssd", "KmsKey": "projects/p/locations/l/keyRings/r/cryptoKeys/k"}}`, want: func(i *compute.Instance) {
			i.Disks[0].InitializeParams.DiskSizeGb = new(int64(50))
			i.Disks[0].InitializeParams.DiskType = new("projects/nstance-fake/zones/europe-west1-b/diskTypes/pd-ssd")
			i.Disks[0].DiskEncryptionKey = &compute.CustomerEncryptionKey{KmsKeyName: new("projects/p/locations/l/keyRings/r/cryptoKeys/k")}
		}},
		"a size that was rendered": {args: `{"BootDisk": {"SizeGb": "50"}}`, want: func(i *compute.Instance) {
			i.Disks[0].InitializeParams.DiskSizeGb = new(int64(50))
		}},
		"a service account": {args: `{"ServiceAccount": "vm@p.iam.gserviceaccount.com"}`, want: func(i *compute.Instance) {
			i.ServiceAccounts = []*compute.ServiceAccount{{Email: new("vm@p.iam.gserviceaccount.com"), Scopes: []string{"https://www.googleapis.com/auth/cloud-platform"}}}
		}},
		"service accounts in full": {args: `{"ServiceAccounts": [{"Email": "vm@p.iam.gserviceaccount.com", "Scopes": ["x"]}]}`, want: func(i *compute.Instance) {
			i.ServiceAccounts = []*compute.ServiceAccount{{Email: new("vm@p.iam.gserviceaccount.com"), Scopes: []string{"x"}}}
		}},
		"labels, and ours win": {args: `{"Labels": {"team": "a_b", "nstance-shard": "other"}}`, want: func(i *compute.Instance) {
			i.Labels["team"] = "a_b"
		}},
		"metadata": {args: `{"Metadata": {"enable-oslogin": "TRUE"}}`, want: func(i *compute.Instance) {
			i.Metadata = &compute.Metadata{Items: []*compute.Items{{Key: new("enable-oslogin"), Value: new("TRUE")}}}
		}},
		"network": {args: `{"NetworkTags": ["web"], "CanIpForward": true, "StackType": "IPV4_IPV6", "AccessConfig": {}}`, want: func(i *compute.Instance) {
			i.Tags = &compute.Tags{Items: []string{"web"}}
			i.CanIpForward = new(true)
			i.NetworkInterfaces[0].StackType = new("IPV4_IPV6")
			i.NetworkInterfaces[0].AccessConfigs = []*compute.AccessConfig{{Type: new("ONE_TO_ONE_NAT")}}
		}},
		"spot": {args: `{"ProvisioningModel": "SPOT"}`, want: func(i *compute.Instance) {
			i.Scheduling = &compute.Scheduling{ProvisioningModel: new("SPOT"), OnHostMaintenance: new("TERMINATE"), AutomaticRestart: new(false)}
		}},
		"preemptible, rendered": {args: `{"Preemptible": "true", "OnHostMaintenance": "MIGRATE"}`, want: func(i *compute.Instance) {
			i.Scheduling = &compute.Scheduling{Preemptible: new(true), OnHostMaintenance: new("MIGRATE"), AutomaticRestart: new(false)}
		}},
		"not spot": {args: `{"ProvisioningModel": "STANDARD"}`, want: func(i *compute.Instance) {
			i.Scheduling = &compute.Scheduling{ProvisioningModel: new("STANDARD")}
		}},
		"spot, as the request says": {change: func(r *driver.CreateRequest) { r.CapacityType = driver.Spot }, want: func(i *compute.Instance) {
			i.Scheduling = &compute.Scheduling{ProvisioningModel: new("SPOT"), OnHostMaintenance: new("TERMINATE"), AutomaticRestart: new(false)}
		}},
		"on demand, as the request says": {change: func(r *driver.CreateRequest) { r.CapacityType = driver.OnDemand }, want: func(i *compute.Instance) {
			i.Scheduling = &compute.Scheduling{ProvisioningModel: new("STANDARD")}
		}},
		"reserved": {change: func(r *driver.CreateRequest) { r.CapacityType, r.Reservation = driver.Reserved, "res" }, want: func(i *compute.Instance) {
			i.ReservationAffinity = &compute.ReservationAffinity{
				ConsumeReservationType: new("SPECIFIC_RESERVATION"), Key: new("compute.googleapis.com/reservation-name"), Values: []string{"res"}}
		}},
		"hardware": {args: `{"MinCpuPlatform": "Intel Ice Lake", "GuestAccelerators": [{"acceleratorType": "nvidia-l4", "acceleratorCount": 1}],
			"ShieldedInstanceConfig": {"EnableSecureBoot": true}, "ConfidentialInstanceConfig": {"confidentialInstanceType": "SEV"}, "ResourcePolicies": ["r"]}`, want: func(i *compute.Instance) {
			i.MinCpuPlatform = new("Intel Ice Lake")
			i.GuestAccelerators = []*compute.AcceleratorConfig{{AcceleratorType: new("projects/nstance-fake/zones/europe-west1-b/acceleratorTypes/nvidia-l4"), AcceleratorCount: new(int32(1))}}
			i.ShieldedInstanceConfig = &compute.ShieldedInstanceConfig{EnableSecureBoot: new(true)}
			i.ConfidentialInstanceConfig = &compute.ConfidentialInstanceConfig{ConfidentialInstanceType: new("SEV")}
			i.ResourcePolicies = []string{"r"}
			i.Scheduling = &compute.Scheduling{OnHostMaintenance: new("TERMINATE")}
		}},
		"a type with accelerators": {change: func(r *driver.CreateRequest) { r.InstanceType = "g2-standard-4" }, want: func(i *compute.Instance) {
			i.MachineType = new("projects/nstance-fake/zones/europe-west1-b/machineTypes/g2-standard-4")
			i.Scheduling = &compute.Scheduling{OnHostMaintenance: new("TERMINATE")}
		}},
		"more disks": {args: `{"Disks": [{"InitializeParams": {"DiskSizeGb": "100", "DiskType": "hyperdisk-balanced", "ProvisionedIops": 6000}}, {"Type": "SCRATCH", "Interface": "NVME", "AutoDelete": "true", "InitializeParams": {"DiskType": "local-ssd"}}]}`, want: func(i *compute.Instance) {
			i.Disks = append(i.Disks,
				&compute.AttachedDisk{AutoDelete: new(true), InitializeParams: &compute.AttachedDiskInitializeParams{
					DiskSizeGb: new(int64(100)), ProvisionedIops: new(int64(6000)),
					DiskType: new("projects/nstance-fake/zones/europe-west1-b/diskTypes/hyperdisk-balanced")}},
				&compute.AttachedDisk{Type: new("SCRATCH"), Interface: new("NVME"), AutoDelete: new(true), InitializeParams: &compute.AttachedDiskInitializeParams{
					DiskType: new("projects/nstance-fake/zones/europe-west1-b/diskTypes/local-ssd")}})
		}},
		"fields of the instance": {args: `{"ReservationAffinity": {"ConsumeReservationType": "SPECIFIC_RESERVATION", "Key": "compute.googleapis.com/reservation-name", "Values": ["r"]},
			"AdvancedMachineFeatures": {"EnableNestedVirtualization": "true", "ThreadsPerCore": 1}, "NetworkPerformanceConfig": {"TotalEgressBandwidthTier": "TIER_1"},
			"Params": {"ResourceManagerTags": {"tagKeys/1": "tagValues/2"}}}`, want: func(i *compute.Instance) {
			i.ReservationAffinity = &compute.ReservationAffinity{
				ConsumeReservationType: new("SPECIFIC_RESERVATION"), Key: new("compute.googleapis.com/reservation-name"), Values: []string{"r"}}
			i.AdvancedMachineFeatures = &compute.AdvancedMachineFeatures{EnableNestedVirtualization: new(true), ThreadsPerCore: new(int32(1))}
			i.NetworkPerformanceConfig = &compute.NetworkPerformanceConfig{TotalEgressBandwidthTier: new("TIER_1")}
			i.Params = &compute.InstanceParams{ResourceManagerTags: map[string]string{"tagKeys/1": "tagValues/2"}}
		}},
		"fields of its scheduling": {args: `{"NodeAffinities": [{"Key": "team", "Operator": "IN", "Values": ["a"]}], "MaxRunDuration": {"Seconds": 3600}, "InstanceTerminationAction": "DELETE"}`, want: func(i *compute.Instance) {
			i.Scheduling = &compute.Scheduling{
				NodeAffinities: []*compute.SchedulingNodeAffinity{{Key: new("team"), Operator: new("IN"), Values: []string{"a"}}},
				MaxRunDuration: &compute.Duration{Seconds: new(int64(3600))}, InstanceTerminationAction: new("DELETE"),
			}
		}},
		"fields of its interface": {args: `{"AliasIpRanges": [{"IpCidrRange": "/24", "SubnetworkRangeName": "pods"}], "NicType": "GVNIC"}`, want: func(i *compute.Instance) {
			i.NetworkInterfaces[0].AliasIpRanges = []*compute.AliasIpRange{{IpCidrRange: new("/24"), SubnetworkRangeName: new("pods")}}
			i.NetworkInterfaces[0].NicType = new("GVNIC")
		}},
		"two interfaces": {args: `{"AccessConfig": {}, "NetworkInterfaces": [{"NicType": "GVNIC"}, {"Subnetwork": "regions/europe-west1/subnetworks/storage"}]}`, want: func(i *compute.Instance) {
			i.NetworkInterfaces[0].NicType = new("GVNIC")
			i.NetworkInterfaces[0].AccessConfigs = []*compute.AccessConfig{{Type: new("ONE_TO_ONE_NAT")}}
			i.NetworkInterfaces = append(i.NetworkInterfaces, &compute.NetworkInterface{Subnetwork: new("regions/europe-west1/subnetworks/storage")})
		}},
		"a script": {change: func(r *driver.CreateRequest) { r.UserData = []byte("#!/bin/sh\n") }, want: func(i *compute.Instance) {
			i.Metadata = &compute.Metadata{Items: []*compute.Items{{Key: new("startup-script"), Value: new("#!/bin/sh\n")}}}
		}},
		"cloud-init": {change: func(r *driver.CreateRequest) { r.UserData = []byte("#cloud-config\n") }, want: func(i *compute.Instance) {
			i.Metadata = &compute.Metadata{Items: []*compute.Items{{Key: new("user-data"), Value: new("#cloud-config\n")}}}
		}},
		"the subnet of a shared network": {change: func(r *driver.CreateRequest) {
			r.SubnetID = "https://www.googleapis.com/compute/v1/projects/host/regions/europe-west1/subnetworks/shared"
		}, want: func(i *compute.Instance) {
			i.NetworkInterfaces[0].Subnetwork = new("projects/host/regions/europe-west1/subnetworks/shared")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			req := request()
			if tt.args != "" {
				if err := json.Unmarshal([]byte(tt.args), &req.Args); err != nil {
					t.Fatal(err)
				}
			}
			for arg, value := range req.Args {
				if err := rules.New().CheckArg(arg, value); err != nil {
					t.Errorf("check of %s: %v", arg, err)
				}
			}
			if tt.change != nil {
				tt.change(&req)
			}
			want := instanceFrom(t, bare)
			if tt.want != nil {
				tt.want(want)
			}
			for _, disk := range want.Disks {
				if disk.GetType() != "SCRATCH" {
					disk.InitializeParams.Labels = want.Labels
				}
			}
			got, err := instanceOf(here, req)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestInstanceRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*driver.CreateRequest)
		say    string
	}{
		"no image":            {func(r *driver.CreateRequest) { r.Args = nil }, "SourceImage: missing"},
		"no type":             {func(r *driver.CreateRequest) { r.InstanceType = "" }, "no instance type"},
		"no subnet":           {func(r *driver.CreateRequest) { r.SubnetID = "" }, "is not a subnet"},
		"user data too long":  {func(r *driver.CreateRequest) { r.UserData = make([]byte, rules.MaxUserData+1) }, "Google takes 262144"},
		"a NUL byte":          {func(r *driver.CreateRequest) { r.UserData = []byte("#!/bin/sh\n\x00") }, "NUL"},
		"no text":             {func(r *driver.CreateRequest) { r.UserData = []byte("#!/bin/sh\n\xff") }, "UTF-8"},
		"every wrong one":     {func(r *driver.CreateRequest) { r.Args = map[string]any{"Foo": 1, "Bar": 2} }, "Bar: unknown argument"},
		"two kinds of one":    {func(r *driver.CreateRequest) { r.Args["ServiceAccount"], r.Args["ServiceAccounts"] = "a@b", []any{} }, "beside ServiceAccount"},
		"what the server has": {func(r *driver.CreateRequest) { r.Args["Metadata"] = map[string]any{"startup-script": "x"} }, "set userdata"},
	} {
		_, err := instanceOf(here, request(tt.change))
		if err == nil || !strings.Contains(err.Error(), tt.say) {
			t.Errorf("%s: %v, want an error that says %q", name, err, tt.say)
		}
	}
}
