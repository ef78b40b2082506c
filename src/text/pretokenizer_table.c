/* Names of tokenizer.ggml.pre and their expressions, see pretokenizer.h. These are the expressions of the
 * models' own tokenizer.json files; where one is published in a form that could be matched faster or is
 * rewritten here, the comment says so. \s is Unicode White_Space everywhere. */
#include "text/pretokenizer.h"

#include <string.h>

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"
#define LLAMA3                                                                                               \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+"           \
    "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const rdg_pre_rule rules[] = {
    {"llama-bpe llama3 llama-v3 falcon3 pixtral lfm2", {LLAMA3}, true, true},
    {"smaug-bpe dbrx chatglm-bpe glm4", {LLAMA3}, false, false},
    {"gpt-2 phi-2 roberta-bpe gigachat jina-v1-en jina-v2-es jina-v2-de jina-v2-code a.x-4.0 mellum "
     "modern-bert mpt olmo jais trillion granite-docling",
     {GPT2},
     false,
     false},
    {"qwen2 deepseek-r1-qwen megrez stablelm2 hunyuan solar-open grok-2",
     {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
      "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
     false,
     false},
    {"qwen35",
     {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N"
      "}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
     false,
     false},
    {"smollm starcoder refact command-r codeshell exaone minerva-7b mellum2", {"\\p{N}", GPT2}, false, false},
    {"tekken",
     {"[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|[^\\r\\n"
      "\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}| ?[^\\s"
      "\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
     true,
     true},
    {"gpt-4o llama4 kanana2 minimax-m2",
     {"[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t"
      "|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p"
      "{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]"
      "+|\\s+(?!\\S)|\\s+"},
     false,
     false},
    {"deepseek-v3 hunyuan-dense joyai-llm",
     {"\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
      "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
      " ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
     false,
     false},
    /* the fourth is published as \s+$, which takes quadratic time on long runs of spaces */
    {"deepseek-llm",
     {"[\\r\\n]",
      "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-"
      "ჅᎠ-"
      "Ᏽᏸ-"
      "ᏽᲐ-"
      "ᲺᲽ-"
      "Ჿᴀ-"
      "ᴫᵫ-"
      "ᵷᵹ-"
      "ᶚḀ-"
      "ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗ"
      "ὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-"
      "ꚛꜢ-"
      "ꝯꝱ-"
      "ꞇꞋ-"
      "ꞎꭰ-"
      "ꮿﬀ-"
      "ﬆﬓ-"
      "ﬗＡ"
      "-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+",
      "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "(?<!\\s)\\s++\\z", "[一-龥ࠀ-一가-퟿]+", "\\p{N}+"},
     false,
     false},
    {"deepseek-coder",
     {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-퟿]+", "\\p{N}"},
     false,
     false},
    {"falcon", {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}, false, false},
    {"poro-chat bloom gpt3-finnish", {" ?[^(\\s|.,!?…。，、।۔،)]+"}, false, false},
    {"viking", {" ?[^(\\s|.,!?…。，、।۔،)]+", "\\p{N}"}, false, false},
    {"seed-coder",
     {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|"
      "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
     false,
     false},
    {"superbpe", {"\\p{N}+", "(?=(\\d{3})+(?!\\d))"}, false, false},
    {"bailingmoe bailingmoe2 llada-moe",
     {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*["
      "\\r\\n]|\\s+(?!\\S)|\\s+"},
     false,
     false},
    {"chameleon",
     {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", "\\p{N}",
      "[\\p{P}!-/:-@\\[-`{-~]", GPT2},
     false,
     true},
    {"default", {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}, false, false},
};

/* `name` is one of the words of `names`. */
static bool has_name(const char *names, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = names; n && (p = strstr(p, name)); p += n)
        if ((p == names || p[-1] == ' ') && (p[n] == ' ' || p[n] == 0)) return true;
    return false;
}

const rdg_pre_rule *rdg_pre_rule_find(const char *name)
{
    if (strchr(name, ' ')) return NULL;
    for (int i = 0; i < RDG_COUNTOF(rules); i++)
        if (has_name(rules[i].names, name)) return &rules[i];
    return NULL;
}

const rdg_pre_rule *rdg_pre_rule_default(void)
{
    return rdg_pre_rule_find("default");
}

size_t rdg_pre_rule_expressions(const rdg_pre_rule *rule, rdg_str *out)
{
    size_t n = 0;
    for (; n < RDG_PRE_EXPRESSIONS && rule->expressions[n]; n++)
        out[n] = (rdg_str){rule->expressions[n], strlen(rule->expressions[n])};
    return n;
}

static bool same_expressions(const rdg_pre_rule *rule, const rdg_str *expressions, size_t n)
{
    rdg_str own[RDG_PRE_EXPRESSIONS];
    if (rdg_pre_rule_expressions(rule, own) != n) return false;
    for (size_t i = 0; i < n; i++)
        if (own[i].n != expressions[i].n || memcmp(own[i].p, expressions[i].p, own[i].n) != 0) return false;
    return true;
}

size_t rdg_pre_rule_name(const rdg_str *expressions, size_t n, bool ignore_merges, char *name,
                         size_t name_bytes)
{
    const rdg_pre_rule *found = NULL;
    for (int i = 0; i < RDG_COUNTOF(rules); i++) {
        if (!same_expressions(&rules[i], expressions, n)) continue;
        if (!found || rules[i].ignore_merges == ignore_merges) found = &rules[i];
        if (found->ignore_merges == ignore_merges) break;
    }
    size_t len = found ? strcspn(found->names, " ") : 0;
    if (len == 0 || len >= name_bytes) return 0;
    memcpy(name, found->names, len);
    name[len] = 0;
    return len;
}
