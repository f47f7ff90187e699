"""The checks of .ci/kubernetes, which sees to what they need."""

import copy
import pathlib
import re
import sys
import tomllib

import kubernetes_validate
import yaml

HOME = pathlib.Path("examples/kubernetes")
# The oldest has the action `sleep` of preStop without a feature gate.
VERSIONS = ["1.30", "1.37"]
# What `close` takes at most, in seconds.
CLOSE = 3

failures = []


def check(holds, what):
    if not holds:
        failures.append(what)


def is_valid(document, version):
    try:
        kubernetes_validate.validate(document, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        return False, f"{'.'.join(map(str, error.absolute_path))}: {error.message}"
    return True, ""


def documents(pattern):
    for path in sorted(HOME.glob(pattern)):
        for document in yaml.safe_load_all(path.read_text()):
            yield path, document


def schemas(found):
    for path, document in found:
        for version in VERSIONS:
            valid, reason = is_valid(document, version)
            check(valid, f"{path}, Kubernetes {version}: {reason}")


def schemas_bite(deployment):
    """A check that passes everything would look the same."""

    def container(document):
        return document["spec"]["template"]["spec"]["containers"][0]

    def misspell(document):
        container(document)["readinesProbe"] = container(document).pop("readinessProbe")

    def mistype(document):
        document["spec"]["replicas"] = "five"

    def forget(document):
        del document["spec"]["selector"]

    for spoil in (misspell, mistype, forget):
        spoilt = copy.deepcopy(deployment)
        spoil(spoilt)
        for version in VERSIONS:
            valid, _ = is_valid(spoilt, version)
            check(not valid, f"Kubernetes {version} has nothing against a deployment after {spoil.__name__}()")


def constant(text, name):
    return int(re.search(rf"const {name}: \w+ = (?:Duration::from_secs\()?(\d+)", text)[1])


def fits_the_program(deployment):
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    main, settings = (HOME / "main.rs").read_text(), (HOME / "settings.rs").read_text()

    # Of those that are set and not read one only serves the others.
    read = set(re.findall(r'(?:parsed|text)(?:::<\w+>)?\("([A-Z_]+)"', settings))
    given = {variable["name"]: variable.get("value") for variable in container["env"]}
    check(read == set(given) - {"POD_NAMESPACE"}, f"settings.rs reads {sorted(read)}, the deployment sets {sorted(given)}")

    ports = {(port["name"], port["containerPort"], port.get("protocol", "TCP")) for port in container["ports"]}
    http, admin, gossip = (constant(settings, name) for name in ("PORT", "ADMIN_PORT", "GOSSIP_PORT"))
    wanted = {("http", http, "TCP"), ("admin", admin, "TCP"), ("gossip-udp", gossip, "UDP"), ("gossip-tcp", gossip, "TCP")}
    check(ports == wanted, f"the deployment has ports {ports}, the program {wanted}")
    annotated = deployment["spec"]["template"]["metadata"]["annotations"]["prometheus.io/port"]
    check(annotated == str(admin), f"metrics are announced at port {annotated}, and are at {admin}")

    grace = pod["terminationGracePeriodSeconds"]
    needed = container["lifecycle"]["preStop"]["sleep"]["seconds"] + constant(main, "DRAIN") + CLOSE
    check(grace > needed, f"{grace} s of grace, and the end takes up to {needed} s")

    (mount,), (volume,) = container["volumeMounts"], pod["volumes"]
    check(mount["name"] == volume["name"] and "subPath" not in mount, "the key ring is not mounted, or never changes")
    check(given["KEY_RING"].startswith(mount["mountPath"] + "/"), f"no key ring is mounted at {given['KEY_RING']}")

    dockerfile = (HOME / "Dockerfile").read_text()
    user = f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}"
    check(f"\nUSER {user}\n" in dockerfile, f"the image is not for user {user}")
    examples = tomllib.loads(pathlib.Path("Cargo.toml").read_text())["example"]
    (needed,) = (example["required-features"] for example in examples if example["name"] == "kubernetes")
    built = set(re.search(r"--example kubernetes --features (\S+)", dockerfile)[1].split(","))
    check(built == set(needed), f"the image is built with {built}, the program needs {needed}")
    exposed = set(re.search(r"\nEXPOSE (.*)", dockerfile)[1].split())
    check(exposed == {f"{port}/{protocol.lower()}" for _, port, protocol in ports}, f"the image exposes {exposed}")


def fit_together(found, deployment):
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    named = {(port["name"], port.get("protocol", "TCP")): port["containerPort"] for port in container["ports"]}
    check(deployment["spec"]["selector"]["matchLabels"] == labels, "the deployment does not select its pods")
    for path, document in found:
        spec = document["spec"]
        if document["kind"] == "Service":
            check(spec["selector"] == labels, f"{path} selects other pods")
            for port in spec["ports"]:
                at = named.get((port["targetPort"], port.get("protocol", "TCP")))
                check(at is not None, f"{path}: {port['targetPort']} is no port of the pods")
                headless = spec.get("clusterIP") == "None"
                check(not headless or at == port["port"], f"{path}: a headless service translates no port")
        if document["kind"] == "PodDisruptionBudget":
            check(spec["selector"]["matchLabels"] == labels, f"{path} selects other pods")
        if document["kind"] == "NetworkPolicy":
            check(spec["podSelector"]["matchLabels"] == labels, f"{path} selects other pods")
            open_to = {(port["port"], port["protocol"]) for rule in spec["ingress"] for port in rule["ports"]}
            wanted = {(number, protocol) for (_, protocol), number in named.items()}
            check(open_to == wanted, f"{path} opens {open_to}, pods have {wanted}")

    peers = {path.stem: document for path, document in found if "service-peers" in path.name}
    usual, other = peers["service-peers"], copy.deepcopy(peers["service-peers-ready-only"])
    name = usual["metadata"]["name"]
    given = {variable["name"]: variable.get("value") for variable in container["env"]}
    check(given["PEERS"].startswith(f"{name}."), f"peers are looked for as {given['PEERS']}, and are called {name}")
    check(other["spec"].pop("publishNotReadyAddresses") is False, "the variant publishes pods that are not ready")
    other["spec"]["publishNotReadyAddresses"] = True
    check(usual == other, "the two services for peers differ in more than what they publish")


found = [*documents("manifests/*.yaml"), *documents("variants/*.yaml")]
(deployment,) = (document for _, document in found if document["kind"] == "Deployment")
schemas(found)
schemas_bite(deployment)
fits_the_program(deployment)
fit_together(found, deployment)
for failure in failures:
    print(failure)
if failures:
    sys.exit(1)
print(f"{len(found)} documents are valid in Kubernetes {' and '.join(VERSIONS)}, and fit each other and the program")
