"""The Sandboxes of one namespace, through the official client, for which speed does not matter here."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import Any, Final

from sandkeeper.api.crd import POLICY, SANDBOX, Resource
from sandkeeper.api.names import GROUP, VERSION, Annotation
from sandkeeper.cli.failures import Failure, no_cluster, no_such_sandbox, plainly
from sandkeeper.cli.sandboxes import Object, now

__all__ = ["Cluster"]

_DEFAULT_KUBECONFIG: Final = "~/.kube/config"
_SERVICE_ACCOUNT_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
_MERGE_PATCH: Final = "application/merge-patch+json"
_CONNECT_SECONDS: Final = 10.0
_ANSWER_SECONDS: Final = 30.0
_PAGE: Final = 250
"""Sandboxes that are read at once."""
_OK: Final = 200
_NOT_FOUND: Final = 404


class Cluster:
    """One cluster as one user sees it. Nothing is read or connected before the first request."""

    def __init__(
        self, *, kubeconfig: str | None = None, context: str | None = None, namespace: str | None = None
    ) -> None:
        self._kubeconfig = kubeconfig
        self._context = context
        self._namespace = namespace

    @cached_property
    def namespace(self) -> str:
        """The namespace that was asked for, or else the context's own."""
        if self._namespace:
            return self._namespace
        if self._is_inside:
            return _SERVICE_ACCOUNT_NAMESPACE.read_text(encoding="utf-8").strip()
        from kubernetes.config import list_kube_config_contexts  # noqa: PLC0415 - slow to import

        with plainly("read the kubeconfig"):
            contexts, active = list_kube_config_contexts(self._config_file)  # type: ignore[no-untyped-call]
        named = next((each for each in contexts if each["name"] == self._context), None)
        return str(
            ((named if self._context else active) or {}).get("context", {}).get("namespace") or "default"
        )

    @cached_property
    def client(self) -> Any:  # noqa: ANN401 - the client has no types
        """The official client."""
        from kubernetes import client, config  # noqa: PLC0415 - slow to import

        with plainly("read the kubeconfig"):
            configuration = client.Configuration()
            # One refused connection is an answer; three, with warnings in between, are not a better one.
            configuration.retries = False
            if self._is_inside:
                config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
            else:
                config.load_kube_config(  # type: ignore[no-untyped-call]
                    config_file=self._config_file, context=self._context, client_configuration=configuration
                )
        return client.ApiClient(configuration)

    def get(self, name: str) -> Object:
        """Return one Sandbox."""
        return self._one(name, "get", lambda: self._objects.get_namespaced_custom_object(**self._named(name)))

    def list(self, *, all_namespaces: bool = False) -> Object:
        """Return the Sandboxes as a list object."""
        return self._listed(all_namespaces=all_namespaces)

    def table(self, name: str | None = None, *, all_namespaces: bool = False) -> Object:
        """Return one or all as a Table: the columns that kubectl prints, filled by the API server."""
        if name is None:
            return self._listed(all_namespaces=all_namespaces, _headers={"Accept": _TABLE})
        where = self._named(name)
        return self._one(
            name,
            "get",
            lambda: self._objects.get_namespaced_custom_object(**where, _headers={"Accept": _TABLE}),
        )

    def sandboxes(self) -> Iterator[Object]:
        """Yield every Sandbox, read a page at a time."""
        following: str | None = None
        while following != "":
            page = self._listed(all_namespaces=False, limit=_PAGE, _continue=following)
            yield from page["items"]
            following = page["metadata"].get("continue", "")

    def touch(self, name: str, annotations: Mapping[str, str | None] | None = None) -> Object:
        """Record a use, with further annotations if need be, and return the Sandbox as it was at that moment."""
        changed = {Annotation.LAST_USED.value: now(), **(annotations or {})}
        return self._one(name, "touch", lambda: self._annotated(name, changed))

    def annotate(self, name: str, annotations: Mapping[str, str]) -> Object | None:
        """Set annotations, which is no use, and return the Sandbox as it was at that moment; None: it is gone."""
        from kubernetes.client.exceptions import ApiException  # noqa: PLC0415 - slow to import

        with plainly(f"annotate Sandbox {name!r} in namespace {self.namespace!r}"):
            try:
                return self._annotated(name, annotations)
            except ApiException as error:
                if error.status != _NOT_FOUND:
                    raise
        return None

    def changes(self, name: str, *, since: str, seconds: float) -> Iterator[tuple[str, Object]]:
        """Yield what happens to a Sandbox after a resourceVersion, for so many seconds: ADDED, MODIFIED, DELETED.

        A version that is too old raises the client's ApiException with status 410.
        """
        from kubernetes.watch import Watch  # noqa: PLC0415 - slow to import

        stream = Watch().stream(  # type: ignore[no-untyped-call]
            self._objects.list_namespaced_custom_object,
            **_place_of(SANDBOX),
            namespace=self.namespace,
            field_selector=f"metadata.name={name}",
            resource_version=since,
            timeout_seconds=max(1, ceil(seconds)),
            _request_timeout=(_CONNECT_SECONDS, seconds + _ANSWER_SECONDS),
        )
        for event in stream:
            yield event["type"], event["raw_object"]

    def policy(self, name: str, *, namespace: str) -> Object | None:
        """Return a policy's spec; None: it is not there, or not ours to read."""
        try:
            found = self.read_policy(name, namespace=namespace)
        except Failure:
            return None
        return None if found is None else found["spec"]

    def read_policy(self, name: str, *, namespace: str) -> Object | None:
        """Return a policy; None: there is none of that name."""
        from kubernetes.client.exceptions import ApiException  # noqa: PLC0415 - slow to import

        where = {**_place_of(POLICY), "namespace": namespace, "name": name}
        with plainly(f"get policy {name!r} in namespace {namespace!r}"):
            try:
                found: Object = self._objects.get_namespaced_custom_object(**where)
            except ApiException as error:
                if error.status != _NOT_FOUND:
                    raise
                return None
        return found

    def pod(self, name: str) -> Object | None:
        """Return a Pod; None: there is none of that name."""
        from kubernetes.client.exceptions import ApiException  # noqa: PLC0415 - slow to import

        with plainly(f"get Pod {name!r} in namespace {self.namespace!r}"):
            try:
                return self.read(self.path_of_pod(name))
            except ApiException as error:
                if error.status != _NOT_FOUND:
                    raise
        return None

    def path_of_pod(self, name: str) -> str:
        """Return the path at which the API server has a Pod."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{name}"

    def read(self, path: str, params: Sequence[tuple[str, str]] = ()) -> Object:
        """Return what is at a path; the client's ApiException where nothing is, or not for us."""
        from kubernetes.client.exceptions import ApiException  # noqa: PLC0415 - slow to import

        # Not by the client's own method for the kind: it imports the models of everything, which takes seconds.
        request = self.client.param_serialize(
            *("GET", path),
            query_params=list(params),
            header_params={"Accept": "application/json"},
            auth_settings=["BearerToken"],
        )
        answer = self.client.call_api(*request, _request_timeout=(_CONNECT_SECONDS, _ANSWER_SECONDS))
        body: bytes = answer.read()
        if answer.status != _OK:
            raise ApiException(http_resp=answer)
        found: Object = json.loads(body)
        return found

    def _listed(self, *, all_namespaces: bool, **options: Any) -> Object:
        where = _place_of(SANDBOX)
        with plainly(
            "list Sandboxes" if all_namespaces else f"list Sandboxes in namespace {self.namespace!r}"
        ):
            if all_namespaces:
                found: Object = self._objects.list_cluster_custom_object(**where, **options)
            else:
                found = self._objects.list_namespaced_custom_object(
                    **where, namespace=self.namespace, **options
                )
        return found

    def _one(self, name: str, verb: str, request: Any) -> Object:  # noqa: ANN401 - the client has no types
        from kubernetes.client.exceptions import ApiException  # noqa: PLC0415 - slow to import

        with plainly(f"{verb} Sandbox {name!r} in namespace {self.namespace!r}"):
            try:
                found: Object = request()
            except ApiException as error:
                if error.status != _NOT_FOUND:
                    raise
            else:
                return found
        # Listing says whether it is the name that is wrong, the namespace, or that the CRDs are missing.
        others = sorted(each["metadata"]["name"] for each in self.list()["items"])
        raise no_such_sandbox(name, namespace=self.namespace, others=others)

    def _annotated(self, name: str, annotations: Mapping[str, str | None]) -> Object:
        found: Object = self._objects.patch_namespaced_custom_object(
            **self._named(name),
            body={"metadata": {"annotations": dict(annotations)}},
            field_manager="sandkeeper-cli",
            _content_type=_MERGE_PATCH,
        )
        return found

    def _named(self, name: str) -> dict[str, str]:
        return {**_place_of(SANDBOX), "namespace": self.namespace, "name": name}

    @property
    def _config_file(self) -> str:
        # The client reads $KUBECONFIG once, when it is imported: too early for whoever sets it later.
        files = self._kubeconfig or os.environ.get("KUBECONFIG") or _DEFAULT_KUBECONFIG
        if not any(Path(file).expanduser().exists() for file in files.split(os.pathsep) if file):
            raise no_cluster(f"there is no kubeconfig {files}")
        return files

    @property
    def _is_inside(self) -> bool:
        """Whether we run in a Pod and nobody named another cluster."""
        named = self._kubeconfig or self._context or os.environ.get("KUBECONFIG")
        return (
            not named
            and "KUBERNETES_SERVICE_HOST" in os.environ
            and not Path(_DEFAULT_KUBECONFIG).expanduser().exists()
        )

    @cached_property
    def _objects(self) -> Any:  # noqa: ANN401 - the client has no types
        from kubernetes.client import CustomObjectsApi  # noqa: PLC0415 - slow to import

        return CustomObjectsApi(self.client)


def _place_of(resource: Resource) -> dict[str, str]:
    return {"group": GROUP, "version": VERSION, "plural": resource.plural}
