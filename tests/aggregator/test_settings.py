"""Settings: defaults, the table that documents them, and errors that name variable and rule."""

import ast
import os
from pathlib import Path

import pytest

import aggregator.settings
from aggregator.settings import ServerSettings, SettingsError


def test_an_empty_environment_gives_the_defaults() -> None:
    assert ServerSettings.from_env({}) == ServerSettings()


def test_every_variable_is_read() -> None:
    environment = {
        "REDIS_URL": "rediss://store.example.org:6380/0",
        "SOTTOVOCE_KEYS_FILE": "/srv/keys.json",
        "SOTTOVOCE_METRICS": "metrics.toml",
        "SOTTOVOCE_PLAIN_UPLOADS": "refuse",
        "SOTTOVOCE_WEB_ORIGINS": "https://app.example.org, http://[::1]:8443,",
        "SOTTOVOCE_HOST": "::",
        "SOTTOVOCE_PORT": "9000",
        "SOTTOVOCE_WORKERS": "4",
        "SOTTOVOCE_THREADS": "32",
        "SOTTOVOCE_SHARDS": "256",
        "SOTTOVOCE_PLANNED_DEVICES": "10000000",
        "SOTTOVOCE_FOLD_INTERVAL": "0.25",
        "SOTTOVOCE_STORE_TIMEOUT": "2",
        "SOTTOVOCE_STORE_DIRECTORY": "/srv/store",
        "SOTTOVOCE_READY_FOLD_LAG": "90",
        "SOTTOVOCE_METRICS_PORT": "9464",
        "SOTTOVOCE_METRICS_HOST": "10.0.0.5",
        "SOTTOVOCE_METRICS_URLS": "http://a:9464/metrics, https://[::1]/m,",
        "SOTTOVOCE_LOG_FORMAT": "text",
        "SOTTOVOCE_LOG_LEVEL": "warning",
        "SOTTOVOCE_AOF_REWRITE_INTERVAL": "0",
        "SOTTOVOCE_WAIT_REPLICAS": "1",
        "SOTTOVOCE_CANARY_DEVICES": "250",
        "SOTTOVOCE_SURVEYS": f"a.toml{os.pathsep}/srv/b.toml",
    }
    assert ServerSettings.from_env(environment) == ServerSettings(
        redis_url="rediss://store.example.org:6380/0",
        keys_file=Path("/srv/keys.json"),
        metrics_file=Path("metrics.toml"),
        plain_uploads=False,
        web_origins=("https://app.example.org", "http://[::1]:8443"),
        host="::",
        port=9000,
        workers=4,
        threads=32,
        shards=256,
        planned_devices=10_000_000,
        fold_interval_seconds=0.25,
        store_timeout_seconds=2.0,
        store_directory=Path("/srv/store"),
        ready_fold_lag_seconds=90.0,
        metrics_port=9464,
        metrics_host="10.0.0.5",
        metrics_urls=("http://a:9464/metrics", "https://[::1]/m"),
        log_format="text",
        log_level="warning",
        aof_rewrite_interval_seconds=0,
        wait_replicas=1,
        canary_devices=250,
        survey_files=(Path("a.toml"), Path("/srv/b.toml")),
    )


def test_the_table_lists_each_variable_that_is_read() -> None:
    source = Path(aggregator.settings.__file__).read_text()
    read = {
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and (node.value == "REDIS_URL" or node.value.startswith("SOTTOVOCE_"))
    }
    lines = (aggregator.settings.__doc__ or "").splitlines()
    documented = {line.split()[0] for line in lines if line.partition("  ")[0].isupper()}
    assert read == documented


@pytest.mark.parametrize(
    ("variable", "value", "rule"),
    [
        ("REDIS_URL", "http://user:hidden@host", "must begin with redis://"),
        ("SOTTOVOCE_PLAIN_UPLOADS", "no", "must be accept or refuse"),
        ("SOTTOVOCE_PORT", "65536", "0..65535"),
        ("SOTTOVOCE_PORT", "-1", "0..65535"),
        ("SOTTOVOCE_PORT", "1e3", "0..65535"),
        ("SOTTOVOCE_WORKERS", "0", "1..256"),
        ("SOTTOVOCE_THREADS", "many", "1..1024"),
        ("SOTTOVOCE_SHARDS", "²", "1..1024"),
        ("SOTTOVOCE_PLANNED_DEVICES", "9" * 5000, "1..10000000000"),
        ("SOTTOVOCE_FOLD_INTERVAL", "nan", "0.01..3600"),
        ("SOTTOVOCE_FOLD_INTERVAL", "0", "0.01..3600"),
        ("SOTTOVOCE_STORE_TIMEOUT", "soon", "0.01..3600"),
        ("SOTTOVOCE_METRICS_URLS", "ftp://a/metrics", "must be http:// or https:// URLs"),
        ("SOTTOVOCE_METRICS_URLS", "http://", "must be http:// or https:// URLs"),
        ("SOTTOVOCE_METRICS_URLS", "http://a:99999/", "must be http:// or https:// URLs"),
        ("SOTTOVOCE_WEB_ORIGINS", "*", "any page whatsoever may send"),
        *(
            ("SOTTOVOCE_WEB_ORIGINS", text, "must be origins as browsers send them")
            for text in (
                "null",
                "app.example.org",
                "https://*.example.org",
                "https://app.example.org/",
                "https://app.example.org:443",
                "http://app.example.org:80",
                "https://app.example.org:0",
                "https://app.example.org:65536",
                "https://App.example.org",
                "https://app.example.org?",
                "https://[::1",
                "ftp://app.example.org",
            )
        ),
    ],
)
def test_an_error_names_variable_rule_and_value(variable: str, value: str, rule: str) -> None:
    with pytest.raises(SettingsError) as caught:
        ServerSettings.from_env({variable: value})
    text = str(caught.value)
    assert variable in text and rule in text and "hidden" not in text
    assert value in text or variable == "REDIS_URL"


def test_an_error_about_an_address_shows_no_password() -> None:
    with pytest.raises(SettingsError) as caught:
        ServerSettings.from_env({"SOTTOVOCE_METRICS_URLS": "http://ann:hidden@a:9464/metrics"})
    assert "SOTTOVOCE_METRICS_URLS must be" in str(caught.value) and "without a user" in str(
        caught.value
    )
    assert "ann" not in str(caught.value) and "hidden" not in str(caught.value)


def test_without_a_store_the_error_says_how_to_name_one() -> None:
    with pytest.raises(SettingsError, match="REDIS_URL must name the store"):
        ServerSettings().required_redis_url()


def test_buckets_hold_128_planned_devices_and_there_is_always_one() -> None:
    assert ServerSettings(planned_devices=1_000_000).buckets == 123
    assert ServerSettings(planned_devices=1).buckets == 1
