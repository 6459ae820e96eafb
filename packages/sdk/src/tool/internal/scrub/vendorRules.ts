/**
 * Tokens that a vendor's prefix or mark identifies.
 *
 * Most rules are derived from the rule list of gitleaks, whose license follows. They are written for one token instead of a file: a rule
 * needs no keyword around the token, its lengths are lower bounds, so that a cut token is found, and its classes are bounded.
 *
 * MIT License, Copyright (c) 2019 Zachary Rice
 *
 * Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files (the
 * "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish,
 * distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to
 * the following conditions: The above copyright notice and this permission notice shall be included in all copies or substantial portions
 * of the Software. THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
 * WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS
 * BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
 * CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
 */

/** The type of the secret, the prefixes of its tokens, and a pattern of what follows the prefix. */
export type PrefixRule = readonly [type: string, prefixes: string, rest: string]

/** Rules for tokens with a prefix of at least two characters. Prefixes are separated by spaces. */
export const prefixRules: ReadonlyArray<PrefixRule> = [
  ["anthropic-key", "sk-ant-", String.raw`[\w-]{20,300}`],
  ["openai-key", "sk-proj- sk-svcacct- sk-admin- sk-None-", String.raw`[\w-]{20,300}`],
  ["openrouter-key", "sk-or-", String.raw`[\w-]{20,200}`],
  ["api-key", "sk-", String.raw`(?=[\w-]{0,40}\d)[\w-]{20,300}`],
  ["stripe-key", "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_", "[A-Za-z0-9]{10,250}"],
  ["webhook-secret", "whsec_", "[A-Za-z0-9+/=]{20,200}"],
  ["elevenlabs-key", "sk_", "[a-f0-9]{48}"],
  ["github-token", "ghp_ gho_ ghu_ ghs_ ghr_", "[A-Za-z0-9]{20,255}"],
  ["github-token", "github_pat_", String.raw`\w{22,255}`],
  [
    "gitlab-token",
    "glpat- gldt- glft- glrt- glsoat- gloas- glagent- glimt- glptt- glffct- glcbt- glwt-",
    String.raw`[\w-]{16,300}(?:\.[0-9a-z.]{2,40})?`
  ],
  ["gitlab-token", "GR1348941", String.raw`[\w-]{20,100}`],
  [
    "slack-token",
    "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xoxc- xoxd-",
    String.raw`(?=\d|[A-Za-z0-9%]{0,40}\d)(?=[\w%]{10}|\d)[\w%-]{10,400}`
  ],
  ["slack-token", "xoxe.xoxb- xoxe.xoxp-", String.raw`[\w-]{20,400}`],
  ["slack-token", "xapp-", String.raw`\d-[\w-]{20,400}`],
  [
    "slack-webhook",
    "https://hooks.slack.com/ http://hooks.slack.com/ hooks.slack.com/",
    String.raw`(?:services|workflows|triggers)/[\w+/-]{20,200}`
  ],
  [
    "discord-webhook",
    "https://discord.com/api/webhooks/ https://discordapp.com/api/webhooks/ discord.com/api/webhooks/ discordapp.com/api/webhooks/",
    String.raw`\d{10,25}/[\w-]{30,100}`
  ],
  [
    "zapier-webhook",
    "https://hooks.zapier.com/hooks/catch/ hooks.zapier.com/hooks/catch/",
    String.raw`\d{1,12}/\w{5,40}`
  ],
  ["aws-access-key", "AKIA ASIA ABIA ACCA", "[A-Z0-9]{16}(?![A-Za-z0-9])"],
  ["aws-bedrock-key", "ABSK", "[A-Za-z0-9+/]{60,300}={0,2}"],
  ["aws-bedrock-key", "bedrock-api-key-", "[A-Za-z0-9+/=]{20,4000}"],
  ["google-key", "AIza", String.raw`[\w-]{33,40}`],
  ["google-secret", "GOCSPX-", String.raw`[\w-]{20,60}`],
  ["google-token", "ya29.", String.raw`[\w.-]{20,1000}`],
  ["google-token", "1//0", String.raw`[\w-]{30,300}`],
  ["azure-key", "AZDO", "[A-Za-z0-9]{48,84}"],
  ["digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", "[a-f0-9]{32,64}"],
  ["npm-token", "npm_", "[A-Za-z0-9]{30,60}"],
  ["pypi-token", "pypi-", String.raw`AgE[\w-]{40,1000}`],
  ["gem-key", "rubygems_", "[a-f0-9]{40,60}"],
  ["crates-token", "cio", "(?=[A-Za-z]{0,20}[0-9])[A-Za-z0-9]{32}(?![A-Za-z0-9])"],
  ["nuget-key", "oy2", "[a-z0-9]{43}(?![A-Za-z0-9])"],
  ["docker-token", "dckr_pat_ dckr_oat_", String.raw`[\w-]{20,100}`],
  ["clojars-token", "CLOJARS_", "[a-z0-9]{50,70}"],
  ["hugging-face-token", "hf_ api_org_", "[A-Za-z0-9]{28,60}(?![A-Za-z0-9_])"],
  ["groq-key", "gsk_", "[A-Za-z0-9]{30,80}"],
  ["xai-key", "xai-", "[A-Za-z0-9]{40,120}"],
  ["perplexity-key", "pplx-", "[A-Za-z0-9]{40,80}"],
  ["replicate-token", "r8_", "[A-Za-z0-9]{30,60}"],
  ["cerebras-key", "csk-", "[a-z0-9]{30,80}"],
  ["fireworks-key", "fw_", "(?=[A-Za-z]{0,15}[0-9])[A-Za-z0-9]{20,40}(?![A-Za-z0-9_])"],
  ["together-key", "tgp_v1_", String.raw`[\w-]{30,80}`],
  ["nvidia-key", "nvapi-", String.raw`[\w-]{40,100}`],
  ["langsmith-key", "lsv2_pt_ lsv2_sk_", String.raw`[a-f0-9]{32}_[a-f0-9]{8,12}`],
  ["langfuse-key", "sk-lf-", "[0-9a-f-]{36}"],
  ["tavily-key", "tvly-", "(?:dev-|prod-)?[A-Za-z0-9-]{20,60}"],
  ["firecrawl-key", "fc-", "[a-f0-9]{32}(?![a-z0-9])"],
  ["brave-key", "BSA", String.raw`(?=[A-Za-z_-]{0,20}\d)[\w-]{26,32}(?![\w-])`],
  ["jina-key", "jina_", String.raw`[\w-]{40,80}`],
  ["pinecone-key", "pcsk_", String.raw`\w{20,100}`],
  ["voyage-key", "pa-", String.raw`(?=[A-Za-z_-]{0,20}\d)[\w-]{40,60}(?![\w-])`],
  ["e2b-key", "e2b_", "[a-f0-9]{40}"],
  ["wandb-key", "wandb_v1_", String.raw`\w{40,100}`],
  ["linear-key", "lin_api_ lin_oauth_", "[A-Za-z0-9]{30,80}"],
  ["notion-token", "ntn_", "[A-Za-z0-9]{40,60}"],
  ["notion-token", "secret_", "[A-Za-z0-9]{43}(?![A-Za-z0-9])"],
  ["figma-token", "figd_ figo_ figr_ figu_ figoh_ figorh_", String.raw`[\w-]{30,80}`],
  ["airtable-token", "pat", String.raw`[A-Za-z0-9]{14}\.[a-f0-9]{40,64}`],
  ["atlassian-token", "ATATT3 ATCTT3 ATOTT3", String.raw`[\w=-]{60,250}`],
  ["bitbucket-token", "ATBB", "[A-Za-z0-9]{28,40}"],
  ["doppler-token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", String.raw`[\w.-]{30,100}`],
  ["vault-token", "hvs. hvb. hvr.", String.raw`(?=[A-Za-z_-]{0,30}\d)[\w-]{20,400}`],
  [
    "vault-token",
    "s.",
    "(?=[A-Za-z]{0,22}[0-9])(?=[A-Z0-9]{0,22}[a-z])(?=[a-z0-9]{0,22}[A-Z])[A-Za-z0-9]{24}(?![A-Za-z0-9_(])"
  ],
  ["pulumi-token", "pul-", "[a-f0-9]{40}"],
  ["planetscale-token", "pscale_tkn_ pscale_oauth_ pscale_pw_ pscale_app_", String.raw`[\w=.-]{28,80}`],
  ["supabase-token", "sbp_ sbs_", "[a-f0-9]{40}"],
  ["supabase-token", "sb_secret_", String.raw`[\w-]{20,60}`],
  ["neon-key", "napi_", "[a-z0-9]{40,80}"],
  ["databricks-token", "dapi dkea dose dsap", "(?:[a-f0-9]{32}|[A-F0-9]{32})(?:-[0-9])?(?![A-Za-z0-9])"],
  ["fly-token", "fo1_", String.raw`[\w-]{40,50}`],
  ["fly-token", "fm1a_ fm1r_ fm2_", "[A-Za-z0-9+/=]{60,2000}"],
  ["vercel-token", "vcp_ vci_ vca_ vcr_ vck_", "[A-Za-z0-9]{24,80}"],
  ["netlify-token", "nfp_ nfo_ nfc_ nfu_ nfb_", "[A-Za-z0-9]{32,40}"],
  ["render-key", "rnd_", "[A-Za-z0-9]{26,40}"],
  ["heroku-key", "HRKU-", String.raw`[\w-]{36,70}`],
  ["cloudflare-token", "cfk_ cfut_ cfat_", "[A-Za-z0-9]{36,60}"],
  ["cloudflare-key", "v1.0-", "[a-f0-9]{24}-[a-f0-9]{100,160}"],
  ["scalingo-token", "tk-us-", String.raw`[\w-]{40,60}`],
  ["tailscale-key", "tskey-", String.raw`[a-z]{2,12}-[\w-]{16,80}`],
  ["sendgrid-key", "SG.", String.raw`[\w-]{16,32}\.[\w-]{16,64}`],
  ["mailgun-key", "key-", "[a-f0-9]{32}(?![a-z0-9])"],
  ["brevo-key", "xkeysib- xsmtpsib-", String.raw`[a-f0-9]{60,64}-[A-Za-z0-9]{12,20}`],
  ["resend-key", "re_", String.raw`(?=[A-Za-z_]{0,20}\d)[A-Za-z0-9]{8}_[A-Za-z0-9]{20,32}(?!\w)`],
  ["twilio-key", "SK", "[0-9a-f]{32}(?![A-Za-z0-9])"],
  ["shopify-token", "shpat_ shpca_ shppa_ shpss_ shptka_", "[A-Za-z0-9]{30,50}"],
  ["square-token", "sq0atp- sq0csp- sq0idb-", String.raw`[\w-]{22,60}`],
  ["facebook-token", "EAA", "[A-Z][A-Za-z0-9]{60,400}"],
  ["paypal-token", "access_token$production$ access_token$sandbox$", "[0-9a-z]{16}[$][0-9a-f]{32}"],
  ["flutterwave-key", "FLWSECK- FLWSECK_TEST-", "[A-Za-z0-9]{12,40}(?:-X)?"],
  ["mercadopago-token", "APP_USR-", String.raw`\d{6,20}-[\w-]{20,100}`],
  ["plaid-token", "access-sandbox- access-development- access-production-", "[0-9a-f-]{36}"],
  ["lob-key", "live_ test_", "[a-f0-9]{35}(?![a-f0-9])"],
  ["duffel-token", "duffel_test_ duffel_live_", String.raw`[\w=-]{40,50}`],
  ["easypost-key", "EZAK EZTK", "[A-Za-z0-9]{54}"],
  ["shippo-token", "shippo_live_ shippo_test_", "[a-fA-F0-9]{40}"],
  ["new-relic-key", "NRAK- NRII- NRJS- NRRA- NRBR-", "[A-Za-z0-9-]{19,60}"],
  ["dynatrace-token", "dt0c01. dt0s01. dt0s02. dt0s16.", String.raw`[A-Za-z0-9]{8,24}\.[A-Za-z0-9]{40,64}`],
  ["grafana-token", "glc_", "[A-Za-z0-9+/]{32,400}={0,3}"],
  ["grafana-token", "glsa_", "[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}"],
  ["sentry-token", "sntrys_", String.raw`eyJ[\w+/=-]{20,600}`],
  ["sentry-token", "sntryu_ sntrya_ sntryi_", "[a-f0-9]{40,64}"],
  ["honeycomb-key", "hcaik_ hcbik_ hcxik_ hcamk_", "[a-z0-9]{40,80}"],
  ["posthog-key", "phx_ phs_", "[A-Za-z0-9]{36,60}"],
  ["onepassword-token", "ops_", String.raw`eyJ[\w+/-]{40,2000}={0,3}`],
  ["onepassword-key", "A3-", "[A-Z0-9]{6}-[A-Z0-9]{5,11}(?:-[A-Z0-9]{4,6}){3,4}"],
  ["age-key", "AGE-SECRET-KEY-1 AGE-PLUGIN-", "[A-Z0-9-]{40,120}"],
  ["artifactory-key", "AKCp", "[A-Za-z0-9]{60,80}"],
  ["artifactory-token", "cmVmd", "[A-Za-z0-9]{59}(?![A-Za-z0-9])"],
  ["postman-key", "PMAK-", "[a-fA-F0-9]{24}-[a-fA-F0-9]{30,36}"],
  ["prefect-key", "pnu_ pnb_", "[A-Za-z0-9]{36}"],
  ["readme-key", "rdme_", "[a-z0-9]{60,75}"],
  ["sourcegraph-token", "sgp_ sgd_", "(?:[a-fA-F0-9]{16}_|local_)?[a-fA-F0-9]{40,64}"],
  ["sonar-token", "squ_ sqp_ sqa_", "[a-f0-9]{40}"],
  ["circleci-token", "CCIPAT_ CCIPRJ_", String.raw`\w{22,80}`],
  ["buildkite-token", "bkua_ bkct_", "[a-f0-9]{40,64}"],
  ["infracost-key", "ico-", String.raw`[A-Za-z0-9]{32}(?![A-Za-z0-9]|\.[a-z]{2,4}\b)`],
  ["octopus-key", "API-", "(?=[A-Z]{0,24}[0-9])[A-Z0-9]{25,30}(?![A-Za-z0-9-])"],
  ["openshift-token", "sha256~", String.raw`[\w-]{40,50}`],
  ["yandex-token", "t1.", String.raw`[\w-]{10,300}={0,2}\.[\w-]{86}={0,2}`],
  ["yandex-key", "AQVN", String.raw`[\w-]{35,40}`],
  ["alibaba-key", "LTAI", "(?=[A-Za-z]{0,20}[0-9])[A-Za-z0-9]{16,24}(?![A-Za-z0-9])"],
  ["tencent-key", "AKID", "(?=[A-Za-z]{0,20}[0-9])[A-Za-z0-9]{32}(?![A-Za-z0-9])"],
  ["intra42-secret", "s-s4t2ud- s-s4t2af-", "[a-f0-9]{64}"],
  ["frameio-token", "fio-u-", String.raw`[\w=-]{60,70}`],
  ["typeform-token", "tfp_", String.raw`[\w.=-]{40,70}`],
  ["harness-key", "pat. sat.", String.raw`[\w-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}`],
  ["settlemint-token", "sm_aat_ sm_pat_ sm_sat_", "[A-Za-z0-9]{16}"],
  ["contentful-token", "CFPAT-", String.raw`[\w-]{40,50}`],
  ["mapbox-token", "sk.eyJ", String.raw`[\w-]{20,200}\.[\w-]{16,40}`],
  ["adobe-secret", "p8e- p8-", "[a-zA-Z0-9]{32}(?![A-Za-z0-9])"],
  ["clickhouse-key", "4b1d", "(?=[a-z0-9]{0,30}[A-Z])[A-Za-z0-9]{38}(?![A-Za-z0-9])"],
  ["kaggle-token", "KGAT_", "[a-f0-9]{32}"],
  ["expo-token", "exp_ EXPO_TOKEN_", String.raw`(?=[A-Za-z_-]{0,20}\d)[\w-]{36,60}(?![\w-])`],
  ["shortcut-key", "sct_rw_ sct_ro_", String.raw`\w{20,120}`],
  ["clerk-secret", "sk_clerk_", String.raw`\w{20,120}`],
  ["ngrok-key", "ngrok_ cr_", "[A-Za-z0-9]{40,60}"],
  ["jwt", "eyJ", String.raw`[\w-]{8,4000}\.[\w-]{8,8000}(?:\.[\w-]{6,2000}={0,2}){0,3}`],
  ["jwt", "ZXlK", "[A-Za-z0-9+/]{60,8000}={0,2}"],
  ["grafana-key", "eyJrIjoi", "[A-Za-z0-9+/]{40,400}={0,3}"]
]

/** The type of the secret, a text within its tokens, and a pattern of the whole token. */
export type MarkRule = readonly [type: string, mark: string, token: string]

/** Rules for tokens with a mark in their middle or at their end. */
export const markRules: ReadonlyArray<MarkRule> = [
  ["azure-secret", "Q~", String.raw`(?<![\w~.-])[\w~.]{3}\dQ~[\w~.-]{31,34}(?![\w~.-])`],
  ["azure-key", "JQQJ99", "[A-Za-z0-9+/]{30,60}JQQJ99[A-Za-z0-9+/]{10,60}={0,2}"],
  ["terraform-token", ".atlasv1.", String.raw`[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{50,90}`],
  ["openai-key", "T3BlbkFJ", String.raw`[\w-]{16,200}T3BlbkFJ[\w-]{16,200}`],
  [
    "discord-token",
    ".",
    String.raw`(?<![\w.-])(?=[a-z0-9]*[A-Z])(?=[A-Z0-9]*[a-z])[\w-]{23,28}\.[\w-]{6,7}\.(?=[\w-]*\d)(?=[\w-]*[A-Z])(?=[\w-]*[a-z])[\w-]{27,45}(?![\w.-])`
  ],
  ["maxmind-key", "_mmk", "[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk"],
  ["mailchimp-key", "-us", String.raw`(?<![a-f0-9])[a-f0-9]{32}-us\d{1,2}(?!\w)`],
  ["telegram-token", ":AA", String.raw`(?<!\d)\d{8,10}:AA[\w-]{32,36}(?![\w-])`],
  ["teams-webhook", ".webhook.office.com/", String.raw`[\w.-]{1,60}\.webhook\.office\.com/[\w@/-]{60,300}`],
  ["facebook-token", "|", String.raw`(?<!\d)\d{15,16}\|[\w-]{27,40}(?![\w-])`],
  ["asana-token", "/", String.raw`(?<!\w)[12]/\d{12,20}(?:/\d{12,20})?:[a-f0-9]{32}(?!\w)`]
]
