"""The Kubernetes manifest has what an ensemble needs, and the chart renders the same.

Helm itself is asked where it is installed. Elsewhere the chart's few expressions are filled in here, each by
its value; one that is not listed fails the test.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).parents[2] / "docker"
MANIFEST = FOLDER / "kubernetes" / "triokeeper.yaml"
CHART = FOLDER / "helm" / "triokeeper"
RELEASE = "zookeeper"
Document = dict[str, Any]


def documents(text: str) -> dict[tuple[str, str], Document]:
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(text)}


@pytest.fixture
def manifest() -> dict[tuple[str, str], Document]:
    return documents(MANIFEST.read_text())


def test_every_object_is_complete(manifest: dict[tuple[str, str], Document]) -> None:
    assert list(manifest) == [
        ("Service", "zookeeper"),
        ("Service", "zookeeper-members"),
        ("PodDisruptionBudget", "zookeeper"),
        ("StatefulSet", "zookeeper"),
    ]
    versions = [each["apiVersion"] for each in manifest.values()]
    assert versions == ["v1", "v1", "policy/v1", "apps/v1"]


def test_members_find_each_other_before_they_are_ready(manifest: dict[tuple[str, str], Document]) -> None:
    members = manifest["Service", "zookeeper-members"]["spec"]
    ensemble = manifest["StatefulSet", "zookeeper"]["spec"]

    assert members["clusterIP"] == "None"
    assert members["publishNotReadyAddresses"] is True
    assert ensemble["podManagementPolicy"] == "Parallel"
    assert ensemble["serviceName"] == "zookeeper-members"
    environment = {each["name"]: each.get("value") for each in container(ensemble)["env"]}
    assert environment["ZOO_SERVERS"].split() == [
        f"server.{number + 1}=zookeeper-{number}.zookeeper-members:2888:3888;2181"
        for number in range(ensemble["replicas"])
    ]


def test_selectors_and_names_match(manifest: dict[tuple[str, str], Document]) -> None:
    ensemble = manifest["StatefulSet", "zookeeper"]["spec"]
    labels = ensemble["template"]["metadata"]["labels"]
    selectors = [
        manifest["Service", "zookeeper"]["spec"]["selector"],
        manifest["Service", "zookeeper-members"]["spec"]["selector"],
        manifest["PodDisruptionBudget", "zookeeper"]["spec"]["selector"]["matchLabels"],
        ensemble["selector"]["matchLabels"],
    ]
    assert selectors == [labels] * 4
    ports = {port["name"] for port in container(ensemble)["ports"]}
    for name in ("zookeeper", "zookeeper-members"):
        assert {port["targetPort"] for port in manifest["Service", name]["spec"]["ports"]} <= ports
    volumes = [*ensemble["template"]["spec"]["volumes"], *map(metadata, ensemble["volumeClaimTemplates"])]
    mounted = {mount["name"] for mount in container(ensemble)["volumeMounts"]}
    assert mounted == {volume["name"] for volume in volumes}


def container(ensemble: Document) -> Document:
    (one,) = ensemble["template"]["spec"]["containers"]
    return dict(one)


def metadata(claim: Document) -> Document:
    return dict(claim["metadata"])


def test_ready_and_alive_are_different_questions(manifest: dict[tuple[str, str], Document]) -> None:
    probed = container(manifest["StatefulSet", "zookeeper"]["spec"])

    assert probed["readinessProbe"]["exec"]["command"] == ["triokeeper-healthcheck"]
    assert "ruok" in probed["livenessProbe"]["exec"]["command"][-1]
    assert manifest["PodDisruptionBudget", "zookeeper"]["spec"]["maxUnavailable"] == 1


def test_the_chart_renders_the_manifest(manifest: dict[tuple[str, str], Document]) -> None:
    rendered = render_with_helm() if shutil.which("helm") else render_by_hand()

    assert documents(rendered) == manifest


def render_with_helm() -> str:
    return subprocess.run(
        ["helm", "template", RELEASE, CHART], check=True, capture_output=True, text=True, timeout=60
    ).stdout


def render_by_hand() -> str:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    servers = [
        f"server.{number + 1}={RELEASE}-{number}.{RELEASE}-members:2888:3888;2181"
        for number in range(values["replicas"])
    ]
    variables = [
        f"            - {{name: {name}, value: {json.dumps(value)}}}"
        for name, value in values["environment"].items()
    ]
    text = (CHART / "templates" / "ensemble.yaml").read_text()
    text = re.sub(
        r" *\{\{- range \$at .*?end }}", f"                {' '.join(servers)}", text, flags=re.DOTALL
    )
    text = re.sub(r" *\{\{- range \$variable.*?end }}", "\n".join(variables), text, flags=re.DOTALL)
    text = re.sub(r"\n *\{\{- with \.Values\.storage\.className }}.*?end }}", "", text, flags=re.DOTALL)
    for expression, value in {
        "{{- $name := .Release.Name -}}\n": "",
        "{{ $name }}": RELEASE,
        "{{ .Values.replicas }}": str(values["replicas"]),
        "{{ .Values.image.name }}": values["image"]["name"],
        "{{ .Values.image.pullPolicy }}": values["image"]["pullPolicy"],
        "{{ .Values.extraConfig | quote }}": json.dumps(values["extraConfig"]),
        "{{ .Values.resources | toJson }}": json.dumps(values["resources"]),
        "{{ .Values.storage.size }}": values["storage"]["size"],
    }.items():
        assert expression in text, expression
        text = text.replace(expression, value)
    assert "{{" not in text
    return text
