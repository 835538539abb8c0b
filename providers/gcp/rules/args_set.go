package rules

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// cloudPlatform is the scope that leaves what a machine may do to the roles of
// its service account.
const cloudPlatform = "https://www.googleapis.com/auth/cloud-platform"

// The metadata that user data goes into.
const (
	KeyStartupScript = "startup-script"
	KeyUserData      = "user-data"
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
			err = setSize(d.made, "diskSizeGb", object[key])
		case "Type":
			err = setText(d.made, "diskType", object[key])
		case "KmsKey":
			err = setText(part(d.disk, "diskEncryptionKey"), "kmsKeyName", object[key])
		default:
			err = errors.New("unknown; a boot disk has SizeGb, Type and KmsKey")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

func setSize(m protoreflect.Message, name string, value any) error {
	n, err := strconv.ParseInt(fmt.Sprint(value), 10, 64) // a json.Number, Go's own, or rendered
	if err != nil || n < 1 {
		return fmt.Errorf("is %v, must be a number of GiB", value)
	}
	put(m, name, n)
	return nil
}

func setServiceAccount(d *draft, value any) error {
	email, err := readText(value)
	if err != nil {
		return err
	}
	if !strings.Contains(email, "@") && email != "default" {
		return fmt.Errorf("%q is not a service account; it must be an e-mail address", email)
	}
	account := newMessage("ServiceAccount")
	put(account, "email", email)
	account.Mutable(fieldOf(account, "scopes")).List().Append(protoreflect.ValueOfString(cloudPlatform))
	putList(d.instance, "serviceAccounts", account)
	return nil
}

func setServiceAccounts(d *draft, value any) error {
	accounts, err := readMessages("ServiceAccount", value)
	if err != nil {
		return err
	}
	putList(d.instance, "serviceAccounts", accounts...)
	return nil
}

func setLabels(d *draft, value any) error {
	labels, err := readMap(value, checkLabel)
	if err != nil {
		return err
	}
	field := d.instance.Mutable(fieldOf(d.instance, "labels")).Map()
	for key, text := range labels {
		field.Set(protoreflect.ValueOfString(key).MapKey(), protoreflect.ValueOfString(text))
	}
	return nil
}

func setMetadata(d *draft, value any) error {
	made, err := readMap(value, func(key, _ string) error {
		switch {
		case key == KeyStartupScript || key == KeyUserData:
			return errors.New("is where the server puts the user data; set userdata")
		case !metadataKey.MatchString(key):
			return errors.New("is not a metadata key; use letters, digits, _ and -, at most 128")
		}
		return nil
	})
	if err != nil {
		return err
	}
	var items []protoreflect.Message
	for _, key := range slices.Sorted(maps.Keys(made)) {
		item := newMessage("Items")
		put(item, "key", key)
		put(item, "value", made[key])
		items = append(items, item)
	}
	putList(part(d.instance, "metadata"), "items", items...)
	return nil
}

func setNetworkTags(d *draft, value any) error {
	tags, err := readTexts(value)
	if err != nil {
		return err
	}
	of := part(d.instance, "tags")
	items := of.Mutable(fieldOf(of, "items")).List()
	for i, tag := range tags {
		if !ResourceName.MatchString(tag) {
			return fmt.Errorf("[%d]: %q is not a network tag; use lowercase letters, digits and -, a letter first", i, tag)
		}
		items.Append(protoreflect.ValueOfString(tag))
	}
	return nil
}

func setProvisioningModel(d *draft, value any) error {
	return setEnum(d.scheduling, "provisioningModel", value, "ProvisioningModel")
}

func setOnHostMaintenance(d *draft, value any) error {
	return setEnum(d.scheduling, "onHostMaintenance", value, "OnHostMaintenance")
}

func setStackType(d *draft, value any) error {
	return setEnum(d.nic, "stackType", value, "StackType")
}

// setEnum takes what an enumeration of the message has, but for its zero, which is nothing.
func setEnum(m protoreflect.Message, name string, value any, enum protoreflect.Name) error {
	word, err := readText(value)
	if err != nil {
		return err
	}
	words := m.Descriptor().Enums().ByName(enum).Values()
	if one := words.ByName(protoreflect.Name(word)); one == nil || one.Number() == 0 {
		var known []string
		for i := range words.Len() {
			if words.Get(i).Number() != 0 {
				known = append(known, string(words.Get(i).Name()))
			}
		}
		slices.Sort(known)
		return fmt.Errorf("is %q, must be one of %s", word, strings.Join(known, ", "))
	}
	put(m, name, word)
	return nil
}

// setAccessConfig gives the machine an external address; an empty object is one
// of Google's choice.
func setAccessConfig(d *draft, value any) error {
	config := newMessage("AccessConfig")
	if err := setMessage(config.Interface(), value); err != nil {
		return err
	}
	if !has(config, "type") {
		put(config, "type", "ONE_TO_ONE_NAT")
	}
	putList(d.nic, "accessConfigs", config)
	return nil
}
