package deploy_test

import (
	"strings"

	"github.com/zclconf/go-cty/cty"
)

// resources are the attributes that modules may refer to, by the type of the resource
// or data source, with an example of each. They are copied from the documentation of
// the clouds' providers for Terraform: what does not stand here does not exist. NAME
// becomes the name of the resource.
var resources = map[string]map[string]string{
	"aws_autoscaling_group":    {"name": "NAME", "arn": "arn:aws:autoscaling:us-east-1:123456789012:autoScalingGroup:NAME"},
	"aws_eip":                  {"id": "eipalloc-NAME", "public_ip": "198.51.100.1"},
	"aws_iam_role":             {"id": "NAME", "name": "NAME", "arn": "arn:aws:iam::123456789012:role/NAME"},
	"aws_iam_role_policy":      {"id": "role:NAME"},
	"aws_internet_gateway":     {"id": "igw-NAME"},
	"aws_launch_template":      {"id": "lt-NAME", "latest_version": "1"},
	"aws_nat_gateway":          {"id": "nat-NAME"},
	"aws_route_table":          {"id": "rtb-NAME"},
	"aws_s3_bucket":            {"id": "NAME", "arn": "arn:aws:s3:::NAME", "bucket": "NAME"},
	"aws_s3_object":            {"id": "NAME", "etag": "NAME"},
	"aws_security_group":       {"id": "sg-NAME"},
	"aws_subnet":               {"id": "subnet-NAME", "availability_zone": "us-east-1a"},
	"aws_vpc":                  {"id": "vpc-NAME"},
	"aws_vpc_endpoint":         {"id": "vpce-NAME"},
	"aws_network_interface":    {"id": "eni-NAME", "arn": "arn:aws:ec2:us-east-1:123456789012:network-interface/eni-NAME"},
	"aws_s3_bucket_versioning": {"id": "NAME"},
	"aws_iam_instance_profile": {
		"name": "NAME", "arn": "arn:aws:iam::123456789012:instance-profile/NAME",
	},

	"google_compute_firewall":               {"id": "NAME"},
	"google_compute_health_check":           {"id": "projects/my-project-1/global/healthChecks/NAME"},
	"google_compute_instance_group_manager": {"instance_group": "projects/my-project-1/zones/europe-west1-b/instanceGroups/NAME"},
	"google_compute_instance_template":      {"id": "projects/my-project-1/global/instanceTemplates/NAME"},
	"google_compute_network":                {"id": "projects/my-project-1/global/networks/NAME"},
	"google_compute_router":                 {"name": "NAME"},
	"google_compute_subnetwork":             {"id": "projects/my-project-1/regions/europe-west1/subnetworks/NAME"},
	"google_project_iam_custom_role":        {"name": "projects/my-project-1/roles/NAME"},
	"google_project_service":                {"id": "NAME"},
	"google_secret_manager_secret":          {"secret_id": "NAME"},
	"google_service_account": {
		"name": "projects/my-project-1/serviceAccounts/NAME@my-project-1.iam.gserviceaccount.com", "email": "NAME@my-project-1.iam.gserviceaccount.com",
		"member": "serviceAccount:NAME@my-project-1.iam.gserviceaccount.com",
	},
	"google_storage_bucket":        {"name": "NAME"},
	"google_storage_bucket_object": {"name": "NAME"},

	"data.aws_caller_identity": {"account_id": "123456789012"},
	"data.aws_partition":       {"partition": "aws"},
	"data.aws_ssm_parameter":   {"insecure_value": "ami-0123456789abcdef0"},
}

// example is one instance of a resource. key tells it from the others of a for_each.
func example(kind, name, key string) cty.Value {
	attributes := map[string]cty.Value{}
	for attribute, value := range resources[kind] {
		label := strings.ReplaceAll(strings.Trim(name+"-"+key, "-"), "_", "-")
		attributes[attribute] = cty.StringVal(strings.ReplaceAll(value, "NAME", label))
	}
	return cty.ObjectVal(attributes)
}
