package rules

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// maxUserData is how many bytes of user data EC2 takes, before they are encoded.
// Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-add-user-data.html
const maxUserData = 16 << 10

// cloudInit are the beginnings of user data that is for cloud-init, which unpacks
// what is compressed.
// Source: https://docs.cloud-init.io/en/latest/explanation/format.html
var cloudInit = []string{"#!", "#cloud-", "#include", "#part-handler", "#upstart-job", "## template:", "Content-Type:", "MIME-Version:"}

// EncodeUserData is user data as RunInstances takes it. What is too long is
// compressed, if it is for cloud-init. Equal data gives equal results.
func EncodeUserData(data []byte) (string, error) {
	if len(data) > maxUserData {
		packed, err := compress(data)
		if err != nil {
			return "", err
		}
		data = packed
	}
	return base64.StdEncoding.EncodeToString(data), nil
}

// checkUserData says whether rendered user data fits into what EC2 takes.
func checkUserData(data []byte) error {
	if len(data) <= maxUserData {
		return nil
	}
	_, err := compress(data)
	return err
}

func compress(data []byte) ([]byte, error) {
	if !forCloudInit(data) {
		return nil, fmt.Errorf("user data has %d bytes, and EC2 takes %d; only what begins with #! or #cloud-config is compressed",
			len(data), maxUserData)
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, writing := w.Write(data)
	if err := errors.Join(writing, w.Close()); err != nil {
		return nil, err
	}
	if packed.Len() > maxUserData {
		return nil, fmt.Errorf("user data has %d bytes, %d when compressed, and EC2 takes %d", len(data), packed.Len(), maxUserData)
	}
	return packed.Bytes(), nil
}

func forCloudInit(data []byte) bool {
	for _, start := range cloudInit {
		if strings.HasPrefix(string(data[:min(len(data), len(start))]), start) {
			return true
		}
	}
	return false
}
