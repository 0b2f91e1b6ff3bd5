// The etcd of the test bed: the server as its own module ships it, built
// apart from Kubernetes because their dependency versions disagree.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
