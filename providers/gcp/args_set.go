package gcp

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	compute "cloud.google.com/go/compute/apiv1/computepb"
)

// cloudPlatform is the scope that leaves what a machine may do to the roles of
// its service account.
const cloudPlatform = "https://www.googleapis.com/auth/cloud-platform"

// The metadata that user data goes into.
const (
	keyStartupScript = "startup-script"
	keyUserData      = "user-data"
)

// setBootDisk takes SizeGb, Type and KmsKey.
func setBootDisk(d *draft, value any) error {
	object, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("is %v, must be an object with SizeGb, Type and KmsKey", value)
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		var err error
		switch key {
		case "SizeGb":
			err = setSize(&d.disk.InitializeParams.DiskSizeGb, object[key])
		case "Type":
			err = setText(&d.disk.InitializeParams.DiskType, object[key])
		case "KmsKey":
			d.disk.DiskEncryptionKey = new(compute.CustomerEncryptionKey)
			err = setText(&d.disk.DiskEncryptionKey.KmsKeyName, object[key])
		default:
			err = errors.New("unknown; a boot disk has SizeGb, Type and KmsKey")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

func setSize(field **int64, value any) error {
	n, err := strconv.ParseInt(fmt.Sprint(value), 10, 64) // a json.Number, Go's own, or rendered
	if err != nil || n < 1 {
		return fmt.Errorf("is %v, must be a number of GiB", value)
	}
	*field = &n
	return nil
}

func setServiceAccount(d *draft, value any) error {
	var email *string
	if err := setText(&email, value); err != nil {
		return err
	}
	if !strings.Contains(*email, "@") && *email != "default" {
		return fmt.Errorf("%q is no service account; give its e-mail address", *email)
	}
	d.ServiceAccounts = []*compute.ServiceAccount{{Email: email, Scopes: []string{cloudPlatform}}}
	return nil
}

func setMetadata(d *draft, value any) error {
	var made map[string]string
	err := setMap(&made, value, func(key, _ string) error {
		switch {
		case key == keyStartupScript || key == keyUserData:
			return errors.New("is where the server puts the user data; set userdata")
		case !metadataKey.MatchString(key):
			return errors.New("is no metadata key; use letters, digits, _ and -, at most 128")
		}
		return nil
	})
	if err != nil {
		return err
	}
	d.Metadata = new(compute.Metadata)
	for _, key := range slices.Sorted(maps.Keys(made)) {
		d.addMetadata(key, made[key])
	}
	return nil
}

func (d *draft) addMetadata(key, value string) {
	if d.Metadata == nil {
		d.Metadata = new(compute.Metadata)
	}
	d.Metadata.Items = append(d.Metadata.Items, &compute.Items{Key: &key, Value: &value})
}

func setNetworkTags(d *draft, value any) error {
	d.Tags = new(compute.Tags)
	if err := setTexts(&d.Tags.Items, value); err != nil {
		return err
	}
	for i, tag := range d.Tags.Items {
		if !resourceName.MatchString(tag) {
			return fmt.Errorf("[%d]: %q is no network tag; use small letters, digits and -, a letter first", i, tag)
		}
	}
	return nil
}

// setProvisioningModel takes what the SDK's enumeration has.
func setProvisioningModel(d *draft, value any) error {
	return setEnum(&d.Scheduling.ProvisioningModel, value, compute.Scheduling_ProvisioningModel_value)
}

func setOnHostMaintenance(d *draft, value any) error {
	return setEnum(&d.Scheduling.OnHostMaintenance, value, compute.Scheduling_OnHostMaintenance_value)
}

func setStackType(d *draft, value any) error {
	return setEnum(&d.nic.StackType, value, compute.NetworkInterface_StackType_value)
}

func setEnum(field **string, value any, words map[string]int32) error {
	if err := setText(field, value); err != nil {
		return err
	}
	if n, known := words[**field]; !known || n == 0 {
		known := slices.DeleteFunc(slices.Sorted(maps.Keys(words)), func(word string) bool { return words[word] == 0 })
		return fmt.Errorf("is %q, must be one of %s", **field, strings.Join(known, ", "))
	}
	return nil
}

// setAccessConfig gives the machine an external address; an empty object is one
// of Google's choice.
func setAccessConfig(d *draft, value any) error {
	config := &compute.AccessConfig{}
	if err := setMessage(config, value); err != nil {
		return err
	}
	if config.Type == nil {
		config.Type = new("ONE_TO_ONE_NAT")
	}
	d.nic.AccessConfigs = []*compute.AccessConfig{config}
	return nil
}
